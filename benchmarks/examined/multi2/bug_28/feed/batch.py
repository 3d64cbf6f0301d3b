from dataclasses import dataclass, fields

import torch


@dataclass
class Batch:
    dense: torch.Tensor
    sparse: torch.Tensor
    label: torch.Tensor

    def map(self, fn):
        return type(self)(**{f.name: fn(getattr(self, f.name)) for f in fields(self)})

    def pinned(self):
        return self.map(torch.Tensor.pin_memory)

    def on(self, device):
        return self.map(lambda t: t.to(device, non_blocking=True))

    def __len__(self):
        return self.label.shape[0]


def collate(rows, width, slots, gen):
    return Batch(
        dense=torch.randn(rows, width, generator=gen),
        sparse=torch.rand(rows, slots, generator=gen),
        label=torch.rand(rows, generator=gen).round(),
    )
