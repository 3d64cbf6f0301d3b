"""Free list of device blocks; a returned block carries the event of its last user."""
from __future__ import annotations

import bisect
import contextlib
from dataclasses import dataclass, field

import torch


@dataclass(order=True)
class Block:
    nbytes: int
    storage: torch.Tensor = field(compare=False)
    last_use: torch.cuda.Event = field(compare=False)


class Arena:
    """Scratch memory shared by several streams."""

    GRAIN = 1 << 20

    def __init__(self):
        self._free: list[Block] = []

    def _fresh(self, nbytes: int) -> Block:
        size = -(-nbytes // self.GRAIN) * self.GRAIN
        storage = torch.empty(size, dtype=torch.uint8, device="cuda")
        event = torch.cuda.Event()
        event.record()
        return Block(size, storage, event)

    def acquire(self, nbytes: int) -> Block:
        i = bisect.bisect_left(self._free, nbytes, key=lambda b: b.nbytes)
        block = self._free.pop(i) if i < len(self._free) else self._fresh(nbytes)
        block.last_use.wait()
        return block

    def release(self, block: Block) -> None:
        block.last_use.record()
        bisect.insort(self._free, block)

    @contextlib.contextmanager
    def scratch(self, *shape: int, dtype=torch.float32):
        count = 1
        for s in shape:
            count *= s
        nbytes = count * torch.finfo(dtype).bits // 8
        block = self.acquire(nbytes)
        try:
            yield block.storage[:nbytes].view(dtype).view(shape)
        finally:
            self.release(block)


def project(arena: Arena, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor):
    with arena.scratch(x.shape[0], w.shape[1]) as tmp:
        torch.mm(x, w, out=tmp)
        tmp.relu_()
        torch.mm(tmp, w.T, out=out)


def main():
    arena = Arena()
    streams = [torch.cuda.Stream() for _ in range(3)]
    x = torch.randn(512, 256, device="cuda")
    ws = [torch.randn(256, 256 * (k + 1), device="cuda") for k in range(3)]
    outs = [torch.zeros(512, 256, device="cuda") for _ in range(3)]
    main_stream = torch.cuda.current_stream()
    for s in streams:
        s.wait_stream(main_stream)
    for step in range(30):
        k = step % 3
        with torch.cuda.stream(streams[k]):
            project(arena, x, ws[k], outs[k])
    for s in streams:
        main_stream.wait_stream(s)
    print(sum(outs).sum().item())


if __name__ == "__main__":
    main()
