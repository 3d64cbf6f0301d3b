import queue
import threading

import torch


class Batch:
    def __init__(self, data_shape, label_shape, device):
        self.data = torch.empty(data_shape, pin_memory=True)
        self.label = torch.empty(label_shape, dtype=torch.long, pin_memory=True)
        self.data_gpu = torch.empty(data_shape, device=device)
        self.label_gpu = torch.empty(label_shape, dtype=torch.long, device=device)


class BasePrefetchingDataLayer:
    PREFETCH_COUNT = 3

    def __init__(self, reader, transformer, batch_size, data_shape, device, output_labels=True):
        self.reader = reader
        self.transformer = transformer
        self.device = torch.device(device)
        self.output_labels = output_labels
        shape = (batch_size,) + tuple(data_shape)
        self.prefetch_free = queue.Queue()
        self.prefetch_full = queue.Queue()
        for _ in range(self.PREFETCH_COUNT):
            self.prefetch_free.put(Batch(shape, (batch_size,), self.device))
        self.top_data = torch.empty(shape, device=self.device)
        self.top_label = torch.empty((batch_size,), dtype=torch.long, device=self.device)
        self._must_stop = threading.Event()
        self._thread = None

    def start_internal_thread(self):
        torch.cuda.current_stream(self.device).synchronize()
        self._thread = threading.Thread(target=self._internal_thread_entry, daemon=True)
        self._thread.start()

    def _internal_thread_entry(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        while not self._must_stop.is_set():
            batch = self.prefetch_free.get()
            self.load_batch(batch)
            with torch.cuda.stream(stream):
                batch.data_gpu.copy_(batch.data, non_blocking=True)
                batch.label_gpu.copy_(batch.label, non_blocking=True)
            stream.synchronize()
            self.prefetch_full.put(batch)

    def load_batch(self, batch):
        for i in range(batch.data.shape[0]):
            datum = next(self.reader)
            self.transformer.transform(datum, batch.data[i])
            batch.label[i] = datum.label

    def forward(self):
        batch = self.prefetch_full.get()
        # Copy the data
        self.top_data.copy_(batch.data_gpu)
        if self.output_labels:
            # Copy the labels.
            self.top_label.copy_(batch.label_gpu)
        self.prefetch_free.put(batch)
        return self.top_data, self.top_label

    def stop(self):
        self._must_stop.set()


def train(net, solver, data_layer, max_iter):
    data_layer.start_internal_thread()
    for _ in range(max_iter):
        data, label = data_layer.forward()
        loss = torch.nn.functional.cross_entropy(net(data), label)
        solver.zero_grad()
        loss.backward()
        solver.step()
    data_layer.stop()
