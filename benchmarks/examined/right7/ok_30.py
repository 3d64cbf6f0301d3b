"""Pinned buffers returned to a pool by finalizers."""
import weakref

import torch


class PinnedPool:
    def __init__(self, numel: int):
        self.numel = numel
        self._free: list[torch.Tensor] = []
        self.allocated = 0

    def take(self) -> torch.Tensor:
        if self._free:
            return self._free.pop()
        self.allocated += 1
        return torch.empty(self.numel, pin_memory=True)

    def reclaim(self, buf: torch.Tensor, event: torch.cuda.Event):
        event.synchronize()
        self._free.append(buf)


class Upload:
    """A device tensor being filled from a pooled pinned buffer."""

    def __init__(self, pool: PinnedPool, values, stream: torch.cuda.Stream):
        buf = pool.take()
        view = buf[: len(values)]
        view.copy_(torch.as_tensor(values, dtype=torch.float32))
        with torch.cuda.stream(stream):
            self._tensor = view.to("cuda", non_blocking=True)
            self.event = stream.record_event()
        weakref.finalize(self, pool.reclaim, buf, self.event)

    @property
    def tensor(self) -> torch.Tensor:
        current = torch.cuda.current_stream()
        current.wait_event(self.event)
        self._tensor.record_stream(current)
        return self._tensor


def main():
    pool = PinnedPool(1 << 16)
    stream = torch.cuda.Stream()
    acc = torch.zeros((), device="cuda")
    for i in range(100):
        up = Upload(pool, [float(i)] * 1000, stream)
        acc += up.tensor.sum()
    print(acc.item(), pool.allocated)


if __name__ == "__main__":
    main()
