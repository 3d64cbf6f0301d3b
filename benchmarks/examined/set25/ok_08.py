import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch


class Region:
    def __init__(self, view):
        self.view = view
        self.event = torch.cuda.Event()
        self.recorded = threading.Event()


class StagingArena:
    """Bump allocator over one pinned buffer shared by several upload threads."""

    def __init__(self, nbytes):
        self.buffer = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.lock = threading.Lock()
        self.used = 0
        self.outstanding = []

    def reserve(self, nbytes):
        with self.lock:
            if self.used + nbytes > self.buffer.numel():
                for region in self.outstanding:
                    region.recorded.wait()
                    region.event.synchronize()
                self.outstanding.clear()
                self.used = 0
            region = Region(self.buffer[self.used : self.used + nbytes])
            self.used += nbytes
            self.outstanding.append(region)
            return region


class TensorReceiver:
    def __init__(self, arena, device):
        self.arena = arena
        self.device = device
        self.local = threading.local()

    def stream(self):
        if getattr(self.local, "stream", None) is None:
            torch.cuda.set_device(self.device)
            self.local.stream = torch.cuda.Stream(self.device)
        return self.local.stream

    def receive(self, payload):
        """Stage the payload and upload it; returns the device tensor and its ready event."""
        stream = self.stream()
        data = np.frombuffer(payload, dtype=np.uint8)
        region = self.arena.reserve(data.size)
        try:
            region.view.numpy()[:] = data
            with torch.cuda.stream(stream):
                out = torch.empty(data.size, dtype=torch.uint8, device=self.device)
                out.copy_(region.view, non_blocking=True)
        finally:
            region.event.record(stream)
            region.recorded.set()
        ready = stream.record_event()
        return out, ready


def checksum(tensors, device):
    current = torch.cuda.current_stream(device)
    total = torch.zeros((), dtype=torch.long, device=device)
    for tensor, ready in tensors:
        current.wait_event(ready)
        tensor.record_stream(current)
        total += tensor.to(torch.long).sum()
    return total.item()


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    receiver = TensorReceiver(StagingArena(8 << 20), device)
    rng = np.random.default_rng(0)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for _ in range(16):
            payloads = [rng.integers(0, 255, 1 << 20, dtype=np.uint8).tobytes() for _ in range(32)]
            got = checksum(list(pool.map(receiver.receive, payloads)), device)
            want = sum(int(np.frombuffer(p, dtype=np.uint8).sum(dtype=np.int64)) for p in payloads)
            assert got == want


if __name__ == "__main__":
    main()
