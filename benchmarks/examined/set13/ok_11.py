import queue
import threading

import torch


class DeviceLoader:
    """Moves pinned batches to the GPU from a background thread."""

    def __init__(self, loader, device="cuda:0", depth=2):
        self.loader = loader
        self.device = torch.device(device)
        self.queue = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self.thread = None

    def _retrieve(self):
        for image, label in self.loader:
            if self._stop.is_set():
                return
            yield image.pin_memory(), label.pin_memory()

    def _run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            for image, label in self._retrieve():
                image = image.to(self.device, non_blocking=True)
                label = label.to(self.device, non_blocking=True)
                stream.synchronize()
                self.queue.put((image, label))
                del image, label
        self.queue.put(None)

    def __iter__(self):
        self._stop.clear()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __next__(self):
        item = self.queue.get()
        if item is None:
            self.thread.join()
            raise StopIteration
        current = torch.cuda.current_stream(self.device)
        for tensor in item:
            tensor.record_stream(current)
        return item

    def shutdown(self):
        self._stop.set()
        while self.thread is not None and self.thread.is_alive():
            try:
                self.queue.get(timeout=0.1)
            except queue.Empty:
                pass


def train(model, criterion, optimizer, loader, epochs, mean, std):
    model.train()
    for epoch in range(epochs):
        running = torch.zeros((), device="cuda:0")
        for image, label in DeviceLoader(loader):
            x = image.float().sub_(mean).div_(std)
            loss = criterion(model(x), label)
            del image, label
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.detach()
        print(f"epoch {epoch}: {running.item():.4f}")
