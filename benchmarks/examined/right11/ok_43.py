from __future__ import annotations

from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


@dataclass
class Block:
    data: torch.Tensor
    fences: list[torch.cuda.Event] = field(default_factory=list)


class ScratchPool:
    """Size-class free lists; a returned block carries fences of its users."""

    def __init__(self) -> None:
        self._free: dict[int, deque[Block]] = defaultdict(deque)
        self._spare_events: list[torch.cuda.Event] = []

    @staticmethod
    def _size_class(nbytes: int) -> int:
        return 1 << max(12, (nbytes - 1).bit_length())

    def take(self, nbytes: int) -> Block:
        size = self._size_class(nbytes)
        stream = torch.cuda.current_stream()
        free = self._free[size]
        if free:
            block = free.popleft()
            for event in block.fences:
                stream.wait_event(event)
            self._spare_events.extend(block.fences)
            block.fences.clear()
            return block
        return Block(torch.empty(size, dtype=torch.uint8, device="cuda"))

    def give(self, block: Block, *streams: torch.cuda.Stream) -> None:
        for stream in streams:
            event = self._spare_events.pop() if self._spare_events else torch.cuda.Event()
            event.record(stream)
            block.fences.append(event)
        self._free[block.data.numel()].append(block)

    @contextmanager
    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype):
        count = 1
        for s in shape:
            count *= s
        nbytes = count * torch.empty((), dtype=dtype).element_size()
        block = self.take(nbytes)
        try:
            yield block.data[:nbytes].view(dtype).view(shape)
        finally:
            self.give(block, torch.cuda.current_stream())


class StreamedNorms:
    def __init__(self, lanes: int = 3) -> None:
        self.pool = ScratchPool()
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]

    def __call__(self, mats: list[torch.Tensor]) -> list[float]:
        main = torch.cuda.current_stream()
        out = torch.zeros(len(mats), device="cuda")
        start = main.record_event()
        for i, m in enumerate(mats):
            lane = self.lanes[i % len(self.lanes)]
            with torch.cuda.stream(lane):
                lane.wait_event(start)
                with self.pool.tensor((m.size(0), m.size(0)), m.dtype) as gram:
                    torch.mm(m, m.t(), out=gram)
                    out[i].copy_(gram.diagonal().sum().sqrt())
        for lane in self.lanes:
            main.wait_stream(lane)
        return out.tolist()


if __name__ == "__main__":
    norms = StreamedNorms()
    inputs = [torch.randn(256 * (1 + k % 3), 128, device="cuda") for k in range(12)]
    for _ in range(5):
        values = norms(inputs)
    print(values[:3])
