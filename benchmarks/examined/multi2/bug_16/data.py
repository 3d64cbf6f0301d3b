import torch
from torch.utils.data import DataLoader, Dataset


class Spirals(Dataset):
    def __init__(self, n, dim):
        self.n, self.dim = n, dim

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % 10
        phase = torch.linspace(0, 6.28, self.dim) * (label + 1)
        return torch.sin(phase) + 0.3 * torch.randn(self.dim, generator=g), label


def loader(n=200_000, dim=4096, batch=512):
    return DataLoader(Spirals(n, dim), batch, shuffle=True, num_workers=8,
                      pin_memory=True, drop_last=True, persistent_workers=True)


def split(n, holdout=0.02):
    """Index ranges for training and for the held-out part."""
    cut = int(n * (1.0 - holdout))
    return range(cut), range(cut, n)


class Subset(Dataset):
    def __init__(self, base, indices):
        self.base = base
        self.indices = list(indices)

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return self.base[self.indices[i]]
