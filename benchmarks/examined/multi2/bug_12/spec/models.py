import torch
from torch import nn


class NextToken(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for layer in self.layers:
            h = h + torch.tanh(layer(h))
        return self.head(h)


class Draft(NextToken):
    def __init__(self, cfg):
        super().__init__(cfg.vocab, cfg.draft_dim, 2)


class Target(NextToken):
    def __init__(self, cfg):
        super().__init__(cfg.vocab, cfg.target_dim, 12)


def sizes(*models):
    return [sum(p.numel() for p in m.parameters()) for m in models]


def tie(model):
    """Share embedding and output weights."""
    model.head.weight = model.emb.weight
    return model
