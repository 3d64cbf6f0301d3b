import torch
from torch import nn

from sidestats import FeatureStats


class Encoder(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.stem = nn.Linear(width, dim)
        self.body = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU())

    def forward(self, x):
        x = self.stem(x)
        return x + self.body(x)


@torch.no_grad()
def reference_stats(encoder, batches, dim):
    stats = FeatureStats(dim)
    for images in batches:
        stats.update(stats.keep(encoder(images)))
    return stats.result()


@torch.no_grad()
def extract_stats(encoder, batches, dim):
    stats = FeatureStats(dim)
    for images in batches:
        feats = encoder(images)
        stats.update(feats)
        del feats
    return stats.result()


def frechet(a, b):
    (m1, v1), (m2, v2) = a, b
    return ((m1 - m2).pow(2).sum() + (v1.sqrt() - v2.sqrt()).pow(2).sum()).item()
