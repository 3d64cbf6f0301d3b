import torch
from torch import nn

REGISTRY = {}


def register(name):
    def deco(cls):
        REGISTRY[name] = cls
        return cls
    return deco


def build(name, **kw):
    return REGISTRY[name](**kw).cuda().eval()


@register("text")
class TextEncoder(nn.Module):
    def __init__(self, vocab=30000, dim=1024, depth=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 16, 4 * dim, batch_first=True) for _ in range(depth)
        )

    def forward(self, ids):
        h = self.emb(ids)
        for layer in self.layers:
            h = layer(h)
        return h.mean(1)


@register("image")
class ImageEncoder(nn.Module):
    def __init__(self, dim=1024):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 16, stride=16)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, px):
        h = self.patch(px).flatten(2).transpose(1, 2)
        return (h + self.mlp(h)).mean(1)
