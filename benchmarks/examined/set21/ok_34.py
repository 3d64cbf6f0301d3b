"""Mini-batch loader that copies features to the device in a background thread."""
import queue
import threading

import torch


class MiniBatch:
    """Sampled node ids with their features and labels."""

    def __init__(self, seeds, features, labels):
        self.seeds = seeds
        self.features = features
        self.labels = labels

    def tensors(self):
        return [self.seeds, self.features, self.labels]

    def to(self, device):
        return MiniBatch(*[t.to(device, non_blocking=True) for t in self.tensors()])

    def record_stream(self, stream):
        for tensor in self.tensors():
            tensor.record_stream(stream)


class FeatureFetcher:
    """Gathers rows of a host feature table into pinned memory."""

    def __init__(self, table, labels):
        self.table = table
        self.labels = labels

    def __call__(self, seeds):
        features = torch.empty(len(seeds), self.table.shape[1], dtype=self.table.dtype, pin_memory=True)
        torch.index_select(self.table, 0, seeds, out=features)
        return MiniBatch(seeds.pin_memory(), features, self.labels[seeds].pin_memory())


class _Done:
    def __init__(self, error=None):
        self.error = error


class PrefetchingLoader:
    def __init__(self, sampler, fetcher, device, depth=3):
        self.sampler = sampler
        self.fetcher = fetcher
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.depth = depth

    def _worker(self, out, stop):
        try:
            torch.cuda.set_device(self.device)
            with torch.cuda.stream(self.stream):
                for seeds in self.sampler:
                    if stop.is_set():
                        return
                    batch = self.fetcher(seeds).to(self.device)
                    out.put((batch, self.stream.record_event()))
            out.put(_Done())
        except Exception as error:
            out.put(_Done(error))

    def __iter__(self):
        out = queue.Queue(self.depth)
        stop = threading.Event()
        thread = threading.Thread(target=self._worker, args=(out, stop), daemon=True)
        thread.start()
        try:
            while not isinstance(item := out.get(), _Done):
                batch, ready = item
                current = torch.cuda.current_stream(self.device)
                current.wait_event(ready)
                batch.record_stream(current)
                yield batch
            if item.error is not None:
                raise item.error
        finally:
            stop.set()
            while thread.is_alive():
                try:
                    out.get(timeout=0.1)
                except queue.Empty:
                    pass


def train(model, table, labels, batches, epochs=3, lr=1e-3):
    device = torch.device("cuda", torch.cuda.current_device())
    model = model.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        loader = PrefetchingLoader(batches, FeatureFetcher(table, labels), device)
        running = torch.zeros((), device=device)
        for batch in loader:
            opt.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(batch.features), batch.labels)
            loss.backward()
            opt.step()
            running += loss.detach()
        losses.append(running.item())
    return losses
