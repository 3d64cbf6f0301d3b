import weakref
from collections import defaultdict, deque

import torch


class PinnedPool:
    """Pinned blocks that come back when the tensor they were lent to is collected."""

    def __init__(self):
        self._free = defaultdict(deque)

    def lend(self, shape, dtype, stream: torch.cuda.Stream) -> torch.Tensor:
        key = (tuple(shape), dtype)
        if self._free[key]:
            block, event = self._free[key].popleft()
            event.synchronize()
        else:
            block = torch.empty(shape, dtype=dtype, pin_memory=True)
        lease = block.view(shape)
        weakref.finalize(lease, self._give_back, key, block, stream)
        return lease

    def _give_back(self, key, block, stream):
        self._free[key].append((block, stream.record_event()))


class Uploader:
    def __init__(self):
        self.pool = PinnedPool()
        self.stream = torch.cuda.Stream()

    def upload(self, rows) -> torch.Tensor:
        lease = self.pool.lend((len(rows), len(rows[0])), torch.float32, self.stream)
        for i, r in enumerate(rows):
            lease[i] = torch.tensor(r)
        with torch.cuda.stream(self.stream):
            out = lease.to("cuda", non_blocking=True)
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        out.record_stream(current)
        return out


def main():
    up = Uploader()
    total = torch.zeros(64, device="cuda")
    for i in range(200):
        rows = [[float(i + j)] * 64 for j in range(16)]
        total += up.upload(rows).sum(0)
    print(total.tolist()[0], 16 * sum(range(200)) + 200 * sum(range(16)))


if __name__ == "__main__":
    main()
