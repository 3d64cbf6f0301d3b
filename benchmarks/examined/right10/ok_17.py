"""Two-GPU pipeline with micro-batches; activations cross by a plain device copy."""
import torch
from torch import nn


class Half(nn.Module):
    def __init__(self, dim, depth, device):
        super().__init__()
        self.device = torch.device(device)
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)]).to(device)

    def forward(self, x):
        return self.body(x)


class Pipelined(nn.Module):
    def __init__(self, dim=1024, depth=6, chunks=4):
        super().__init__()
        self.first = Half(dim, depth, "cuda:0")
        self.second = Half(dim, depth, "cuda:1")
        self.chunks = chunks
        self.register_buffer("staging", torch.zeros(0), persistent=False)

    def _stage(self, like: torch.Tensor, k: int) -> torch.Tensor:
        if self.staging.shape != (self.chunks, *like.shape):
            self.staging = torch.empty((self.chunks, *like.shape), device=self.second.device)
        return self.staging[k]

    @torch.no_grad()
    def forward(self, x):
        outs = []
        for k, piece in enumerate(x.chunk(self.chunks)):
            h = self.first(piece)
            slot = self._stage(h, k)
            slot.copy_(h, non_blocking=True)
            outs.append(self.second(slot))
        return torch.cat(outs)


def main():
    net = Pipelined()
    x = torch.randn(256, 1024, device="cuda:0")
    for _ in range(10):
        y = net(x)
        x.copy_(y, non_blocking=True)
        x.div_(x.norm(dim=-1, keepdim=True))
    print(x.sum().item())


if __name__ == "__main__":
    main()
