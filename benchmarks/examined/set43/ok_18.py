import contextlib
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


class HostParking:
    def __init__(self, threshold: int = 1 << 15):
        self.threshold = threshold
        self.bytes = 0
        self.skip: set = set()

    def exclude(self, params):
        for p in params:
            self.skip.add(p.untyped_storage().data_ptr())

    def _pack(self, t: torch.Tensor):
        if t.numel() < self.threshold or t.untyped_storage().data_ptr() in self.skip:
            return t
        host = torch.empty(t.size(), dtype=t.dtype, layout=t.layout, pin_memory=True)
        host.copy_(t, non_blocking=True)
        self.bytes += host.nbytes
        return (t.device, host)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        device, host = packed
        return host.to(device, non_blocking=True)

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


def run(model: nn.Module, parking: HostParking, offload: bool, steps: int) -> List[float]:
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        x = torch.randn(4, 256, 512, device="cuda")
        ctx = parking.hooks() if offload else contextlib.nullcontext()
        with ctx:
            loss = (model(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[Layer(512, 8) for _ in range(4)]).cuda()
    parking = HostParking()
    parking.exclude(model.parameters())
    print(run(model, parking, offload=True, steps=4), parking.bytes >> 20)


if __name__ == "__main__":
    main()
