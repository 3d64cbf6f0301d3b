import torch
import torch.nn as nn


class ChunkedAttention(nn.Module):
    """Attention over chunks with a running softmax."""

    def __init__(self, index, opt):
        super().__init__()
        self.index, self.heads = index, opt.heads
        self.q = nn.Linear(opt.hidden, opt.hidden, bias=False)
        self.o = nn.Linear(opt.hidden, opt.hidden, bias=False)

    def forward(self, x, kv):
        n, c = x.shape
        q = self.q(x).view(n, self.heads, -1).transpose(0, 1)
        q = q * q.shape[-1] ** -0.5
        top = q.new_full((self.heads, n, 1), float("-inf"))
        total = torch.zeros_like(top)
        acc = torch.zeros_like(q)
        for k, v in kv.chunks(self.index):
            s = q @ k.transpose(1, 2)
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, scale = (s - new).exp(), (top - new).exp()
            total = total * scale + p.sum(-1, keepdim=True)
            acc = acc * scale + p @ v
            top = new
        y = (acc / total).transpose(0, 1).reshape(n, c)
        return x + self.o(y)
