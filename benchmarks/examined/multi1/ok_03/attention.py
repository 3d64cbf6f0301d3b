import torch
from torch import nn

from lane import side


class TwoPath(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.gate = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(b, t, c)

    def forward(self, x):
        with side("gate") as s:
            s.keep("g", torch.sigmoid(self.gate(x)))
        y = self.attend(x)
        return x + self.proj(y * s["g"])
