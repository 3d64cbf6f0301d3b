"""Temporaries kept in a graveyard until the device is past them."""
from collections import deque

import torch


class Graveyard:
    def __init__(self, soft_limit=16):
        self.entries = deque()
        self.soft_limit = soft_limit

    def bury(self, event: torch.cuda.Event, *tensors):
        self.entries.append((event, tensors))
        while self.entries and self.entries[0][0].query():
            self.entries.popleft()
        while len(self.entries) > self.soft_limit:
            self.entries.popleft()[0].synchronize()

    def clear(self):
        while self.entries:
            event, tensors = self.entries.popleft()
            event.synchronize()
            del tensors


class Compressor:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.grave = Graveyard()
        self.results = []

    def submit(self, x: torch.Tensor):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            scale = x.abs().amax(1, keepdim=True).clamp_min(1e-8) / 127
            q = (x / scale).round().to(torch.int8)
            host_q = torch.empty(q.shape, dtype=torch.int8, pin_memory=True)
            host_q.copy_(q, non_blocking=True)
            event = self.stream.record_event()
        self.results.append((host_q, event))
        self.grave.bury(event, x)

    def finish(self) -> list:
        self.grave.clear()
        return [int(h.to(torch.int32).abs().sum()) for h, e in self.results]


def main():
    comp = Compressor()
    for _ in range(40):
        comp.submit(torch.randn(256, 512, device="cuda"))
    print(sum(comp.finish()))


if __name__ == "__main__":
    main()
