from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

import numpy as np
import torch


@dataclass
class StagingSlot:
    host: Optional[torch.Tensor] = None
    event: torch.cuda.Event = field(default_factory=torch.cuda.Event)

    def acquire(self, numel: int) -> torch.Tensor:
        self.event.synchronize()
        if self.host is None or self.host.numel() < numel:
            self.host = torch.empty(max(numel, 1 << 16), dtype=torch.int32, pin_memory=True)
        return self.host[:numel]


class PinnedUploader:
    """Stages ragged index lists in page-locked memory, a few uploads deep."""

    def __init__(self, device: torch.device, depth: int = 3) -> None:
        self.device = device
        self.slots = [StagingSlot() for _ in range(depth)]
        self.turn = 0

    def upload(self, rows: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        slot = self.slots[self.turn % len(self.slots)]
        self.turn += 1
        total = sum(len(r) for r in rows)
        n = len(rows)
        staging = slot.acquire(total + n + 1)
        view = staging.numpy()
        offset = 0
        view[0] = 0
        for i, r in enumerate(rows):
            view[n + 1 + offset : n + 1 + offset + len(r)] = r
            offset += len(r)
            view[i + 1] = offset
        packed = staging.to(self.device, non_blocking=True)
        slot.event.record()
        return packed[: n + 1], packed[n + 1 :]


def embedding_bag(table: torch.Tensor, offsets: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(
        values.long(), table, offsets.long(), mode="sum", include_last_offset=True
    )


def main(steps: int = 100) -> None:
    device = torch.device("cuda")
    rng = np.random.default_rng(0)
    table = torch.randn(10_000, 64, device=device)
    uploader = PinnedUploader(device)
    total = torch.zeros(64, device=device)
    for _ in range(steps):
        rows = [rng.integers(0, 10_000, rng.integers(1, 200), dtype=np.int32) for _ in range(128)]
        offsets, values = uploader.upload(rows)
        total += embedding_bag(table, offsets, values).sum(0)
    print(total.cpu().numpy()[:4])


if __name__ == "__main__":
    main()
