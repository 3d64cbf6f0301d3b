"""Token-by-token KV append with asynchronous host mirroring."""
from collections import deque

import torch


class MirroredCache:
    def __init__(self, layers: int, max_len: int, dim: int, lag: int = 4):
        self.dev = torch.empty(layers, max_len, dim, device="cuda")
        self.host = torch.empty(layers, max_len, dim, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.pending: deque = deque()
        self.lag = lag
        self.length = 0
        self.visible = 0

    def append(self, rows: torch.Tensor):
        pos = self.length
        self.dev[:, pos].copy_(rows)
        self.length += 1
        written = torch.cuda.current_stream().record_event()
        self.stream.wait_event(written)
        with torch.cuda.stream(self.stream):
            for layer in range(self.dev.shape[0]):
                self.host[layer, pos].copy_(self.dev[layer, pos], non_blocking=True)
            self.pending.append((pos + 1, self.stream.record_event()))
        self._retire(self.lag)

    def _retire(self, keep: int):
        while len(self.pending) > keep:
            upto, event = self.pending.popleft()
            event.synchronize()
            self.visible = upto

    def host_view(self) -> torch.Tensor:
        return self.host[:, : self.visible]

    def truncate(self):
        self._retire(0)
        snapshot = self.host_view().clone()
        self.length = self.visible = 0
        return snapshot


def main():
    cache = MirroredCache(4, 128, 256)
    sizes = []
    for _ in range(3):
        for t in range(60):
            cache.append(torch.full((4, 256), float(t), device="cuda"))
            sizes.append(float(cache.host_view().sum()))
        sizes.append(float(cache.truncate().mean()))
    print(sizes[-1])


if __name__ == "__main__":
    main()
