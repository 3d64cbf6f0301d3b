"""Optimiser on the host: gradients leave during backward, updated weights return afterwards."""
import torch
from torch import nn


class HostCopy:
    def __init__(self, param):
        self.master = param.detach().cpu().pin_memory()
        self.grad = torch.empty_like(self.master, pin_memory=True)
        self.arrived = torch.cuda.Event()
        self.optim = torch.optim.AdamW([self.master], lr=1e-4)
        self.master.grad = self.grad


class OffloadedOptimizer:
    """Expects one backward pass per step; every parameter must receive a gradient."""

    def __init__(self, module):
        self.down = torch.cuda.Stream()
        self.copies = {}
        for p in module.parameters():
            self.copies[p] = HostCopy(p)
            p.register_post_accumulate_grad_hook(self._on_grad)
        self.order = []

    @torch.no_grad()
    def _on_grad(self, p):
        copy = self.copies[p]
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            copy.grad.copy_(p.grad, non_blocking=True)
            copy.arrived.record()
        p.grad.record_stream(self.down)
        p.grad = None
        self.order.append(p)

    @torch.no_grad()
    def step(self):
        for p in self.order:
            copy = self.copies[p]
            copy.arrived.synchronize()
            copy.optim.step()
            p.copy_(copy.master, non_blocking=True)
        self.order.clear()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train(steps=50, width=1024, depth=12, batch=512, device="cuda"):
    model = nn.Sequential(*[Block(width) for _ in range(depth)]).to(device)
    opt = OffloadedOptimizer(model)
    losses = []
    for _ in range(steps):
        x = torch.randn(batch, width, device=device)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train()[-1])
