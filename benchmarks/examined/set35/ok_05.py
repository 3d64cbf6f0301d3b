"""Metadata upload for a decode loop through a ring of page-locked slots."""
from typing import Dict, List, Optional, Sequence

import torch


class PinnedRing:
    """Rotating page-locked slots for small uploads."""

    def __init__(self, depth: int, numel: int, dtype: torch.dtype):
        self.slots = [torch.empty(numel, dtype=dtype, pin_memory=True) for _ in range(depth)]
        self.used: List[Optional[torch.cuda.Event]] = [None] * depth
        self.next = 0

    def upload(self, values: Sequence[int], dst: torch.Tensor) -> torch.Tensor:
        index = self.next
        self.next = (index + 1) % len(self.slots)
        event = self.used[index]
        if event is not None:
            event.synchronize()
        slot = self.slots[index][:len(values)]
        slot.copy_(torch.tensor(values, dtype=slot.dtype))
        view = dst[:len(values)]
        view.copy_(slot, non_blocking=True)
        self.used[index] = torch.cuda.current_stream().record_event()
        return view


class BatchMetadata:
    def __init__(self, max_batch: int, max_blocks: int, device: str = "cuda"):
        self.max_blocks = max_blocks
        self.lengths = torch.zeros(max_batch, dtype=torch.int64, device=device)
        self.table = torch.zeros(max_batch * max_blocks, dtype=torch.int64, device=device)
        self.length_ring = PinnedRing(3, max_batch, torch.int64)
        self.table_ring = PinnedRing(2, max_batch * max_blocks, torch.int64)

    def refresh(self, lengths: List[int], tables: List[List[int]]):
        flat: List[int] = []
        for row in tables:
            flat.extend(row + [0] * (self.max_blocks - len(row)))
        lens = self.length_ring.upload(lengths, self.lengths)
        table = self.table_ring.upload(flat, self.table)
        return lens, table.view(len(lengths), self.max_blocks)


class Decoder:
    def __init__(self, blocks: int, block: int, dim: int):
        self.block = block
        self.cache = torch.randn(blocks, block, dim, device="cuda")
        self.weight = torch.randn(dim, dim, device="cuda") / dim ** 0.5

    @torch.inference_mode()
    def step(self, hidden: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor):
        rows = self.cache[table].flatten(1, 2)
        positions = torch.arange(rows.shape[1], device=rows.device)
        mask = (positions[None] < lengths[:, None]).unsqueeze(2)
        pooled = (rows * mask).sum(dim=1) / lengths[:, None].clamp(min=1)
        return torch.tanh((hidden + pooled) @ self.weight)


def generate(batch: int, steps: int) -> torch.Tensor:
    meta = BatchMetadata(max_batch=batch, max_blocks=32)
    decoder = Decoder(blocks=1024, block=16, dim=512)
    hidden = torch.zeros(batch, 512, device="cuda")
    allocated: Dict[int, List[int]] = {r: [r] for r in range(batch)}
    for step in range(steps):
        lengths = []
        for r in range(batch):
            if step % 16 == 15:
                allocated[r].append((r * 7 + step) % 1024)
            lengths.append(step + 1)
        lens, table = meta.refresh(lengths, [allocated[r] for r in range(batch)])
        hidden = decoder.step(hidden, lens, table)
    return hidden


def main() -> None:
    print(generate(batch=64, steps=256).norm().item())


if __name__ == "__main__":
    main()
