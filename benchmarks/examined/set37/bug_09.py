"""Overlap detection: matcher and sorter run on separate streams and share a preallocated device arena."""
from dataclasses import dataclass, field
from typing import List, Optional

import torch


@dataclass
class Block:
    begin: int
    size: int
    stream: Optional[torch.cuda.Stream] = None
    released: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    used: bool = False


class DeviceArena:
    """Fixed-size blocks over one slab; a block becomes free for whoever waits for its release event."""

    def __init__(self, blocks: int, block_bytes: int, device: torch.device):
        self.slab = torch.empty(blocks * block_bytes, dtype=torch.uint8, device=device)
        self._free: List[Block] = [Block(i * block_bytes, block_bytes) for i in range(blocks)]
        torch.cuda.synchronize(device)

    def allocate(self, count: int, dtype: torch.dtype, stream: torch.cuda.Stream):
        block = self._free.pop()
        if block.used:
            stream.wait_event(block.released)
        block.stream, block.used = stream, True
        nbytes = count * torch.empty((), dtype=dtype).element_size()
        if nbytes > block.size:
            self._free.append(block)
            raise MemoryError(f"{nbytes} bytes do not fit a block")
        return block, self.slab[block.begin : block.begin + nbytes].view(dtype)

    def release(self, block: Block) -> None:
        block.released.record(block.stream)
        self._free.append(block)


class Overlapper:
    def __init__(self, reference: torch.Tensor, arena: DeviceArena):
        self.reference = reference
        self.arena = arena
        self.match_stream = torch.cuda.Stream()
        self.sort_stream = torch.cuda.Stream()

    def _match(self, sketch: torch.Tensor, anchors: torch.Tensor) -> None:
        position = torch.searchsorted(self.reference, sketch)
        torch.add(position << 32, sketch & 0xFFFFFFFF, out=anchors)

    def process(self, sketch: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.match_stream.wait_stream(caller)
        block, anchors = self.arena.allocate(sketch.numel(), torch.int64, self.match_stream)
        with torch.cuda.stream(self.match_stream):
            self._match(sketch, anchors)
        sketch.record_stream(self.match_stream)
        self.sort_stream.wait_stream(self.match_stream)
        with torch.cuda.stream(self.sort_stream):
            chains = torch.sort(anchors).values
            packed = chains.view(-1, 64).amax(dim=1)
        self.arena.release(block)
        return packed

    def finish(self, results: List[torch.Tensor]) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        caller.wait_stream(self.sort_stream)
        for item in results:
            item.record_stream(caller)
        return torch.cat(results)


def main() -> None:
    device = torch.device("cuda")
    reference = torch.sort(torch.randint(0, 1 << 30, (1 << 24,), device=device)).values
    overlapper = Overlapper(reference, DeviceArena(4, 1 << 27, device))
    results = []
    for _ in range(32):
        sketch = torch.randint(0, 1 << 30, (1 << 23,), device=device)
        results.append(overlapper.process(sketch))
    print(overlapper.finish(results).shape)


if __name__ == "__main__":
    main()
