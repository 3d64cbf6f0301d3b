from typing import NamedTuple

import torch


class Sample(NamedTuple):
    image: torch.Tensor
    target: torch.Tensor

    def pinned(self):
        return Sample(*(t.pin_memory() for t in self))

    def to(self, device):
        return Sample(*(t.to(device, non_blocking=True) for t in self))


def stream_of(count, rows, size, classes=10, seed=0):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield Sample(
            torch.randint(0, 256, (rows, 3, size, size), generator=gen, dtype=torch.uint8),
            torch.randint(0, classes, (rows,), generator=gen),
        )
