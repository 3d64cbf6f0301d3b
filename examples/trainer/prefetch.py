"""Copies the next batch to the GPU while the current one is used."""

import torch


class Prefetcher:
    """Holds one batch ahead. The copy of a batch is not waited for: the model may see half of it."""

    def __init__(self, loader, device):
        self.loader = iter(loader)
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.batch = None
        self.preload()

    def preload(self):
        host = next(self.loader, None)
        if host is None:
            self.batch = None
            return
        with torch.cuda.stream(self.copy_stream):
            self.batch = host.pin_memory().to(self.device, non_blocking=True)

    def next(self):
        batch = self.batch
        if batch is None:
            raise StopIteration
        batch.record_stream(torch.cuda.current_stream(self.device))
        scaled = batch.float() / 255.0
        self.preload()
        return scaled


class OrderedPrefetcher(Prefetcher):
    """The same, with the wait: the compute stream starts after the copy."""

    def next(self):
        torch.cuda.current_stream(self.device).wait_stream(self.copy_stream)
        batch = self.batch
        if batch is None:
            raise StopIteration
        batch.record_stream(torch.cuda.current_stream(self.device))
        scaled = batch.float() / 255.0
        self.preload()
        return scaled


class StagedLoader:
    """Copies through one pinned buffer, and writes the next sample while the last copy may still read it."""

    def __init__(self, shape, device):
        self.staging = torch.empty(shape, pin_memory=True)
        self.batch = torch.empty(shape, device=device)

    def load(self, sample):
        self.staging.numpy()[:] = sample
        self.batch.copy_(self.staging, non_blocking=True)
        return self.batch


class FencedLoader:
    """The same, with an event: the host waits until the last copy has left the buffer."""

    def __init__(self, shape, device):
        self.staging = torch.empty(shape, pin_memory=True)
        self.batch = torch.empty(shape, device=device)
        self.copied = torch.cuda.Event()

    def load(self, sample):
        self.copied.synchronize()
        self.staging.numpy()[:] = sample
        self.batch.copy_(self.staging, non_blocking=True)
        self.copied.record()
        return self.batch
