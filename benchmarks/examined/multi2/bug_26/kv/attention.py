import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedAttention(nn.Module):
    """Cross attention of new tokens to the stored prompt of one layer."""

    def __init__(self, index, hidden, heads):
        super().__init__()
        self.index = index
        self.heads = heads
        self.q = nn.Linear(hidden, hidden, bias=False)
        self.o = nn.Linear(hidden, hidden, bias=False)
        self.norm = nn.LayerNorm(hidden)

    def split(self, t):
        b, n, c = t.shape
        return t.view(b, n, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, x, past):
        k, v = past.arrive(self.index)
        q = self.split(self.q(self.norm(x)))
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).reshape(x.shape)
        return x + self.o(y)


class Tower(nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        self.layers = nn.ModuleList(
            CachedAttention(i, hidden, heads) for i in range(layers)
        )

    def forward(self, x, past):
        for layer in self.layers:
            x = layer(x, past)
        return x
