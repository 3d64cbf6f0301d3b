"""Layer-input stash: block inputs go to a pinned slab in forward, return for recompute."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Lease:
    view: torch.Tensor
    ready: torch.cuda.Event


class HostSlab:
    """One pinned allocation, handed out front to back and rewound every step."""

    def __init__(self, nbytes):
        self.raw = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.top = 0

    def take(self, shape, dtype):
        size = torch.empty((), dtype=dtype).element_size()
        for s in shape:
            size *= s
        size_up = (size + 511) // 512 * 512
        if self.top + size_up > self.raw.numel():
            raise MemoryError("host slab exhausted")
        chunk = self.raw[self.top:self.top + size]
        self.top += size_up
        return chunk.view(dtype).view(shape)

    def rewind(self):
        self.top = 0


class InputStash:
    def __init__(self, slab, shape, dtype=torch.float32):
        self.slab = slab
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.leases = {}
        self.landing = torch.empty(shape, dtype=dtype, device="cuda")

    def put(self, index, x):
        with torch.cuda.stream(self.d2h):
            self.d2h.wait_stream(torch.cuda.current_stream())
            view = self.slab.take(x.shape, x.dtype)
            view.copy_(x, non_blocking=True)
            ready = torch.cuda.Event()
            ready.record(self.d2h)
        x.record_stream(self.d2h)
        self.leases[index] = Lease(view, ready)

    def get(self, index):
        lease = self.leases.pop(index)
        compute = torch.cuda.current_stream()
        self.h2d.wait_stream(compute)
        self.h2d.wait_event(lease.ready)
        with torch.cuda.stream(self.h2d):
            self.landing.copy_(lease.view, non_blocking=True)
        compute.wait_stream(self.h2d)
        return self.landing.clone()

    def end_step(self):
        self.leases.clear()
        self.h2d.synchronize()
        self.slab.rewind()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class RecomputeTrainer:
    def __init__(self, dim, depth, rows):
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth)).cuda()
        self.opt = torch.optim.SGD(self.blocks.parameters(), lr=1e-3)
        self.stash = InputStash(HostSlab(depth * rows * dim * 4 + depth * 512), (rows, dim))

    @torch.no_grad()
    def forward(self, x):
        for i, block in enumerate(self.blocks):
            self.stash.put(i, x)
            x = block(x)
        return x

    def backward(self, grad):
        for i in reversed(range(len(self.blocks))):
            x = self.stash.get(i).requires_grad_()
            with torch.enable_grad():
                y = self.blocks[i](x)
            y.backward(grad)
            grad = x.grad
        return grad

    def step(self, x, target):
        y = self.forward(x)
        self.backward((y - target) * (2.0 / y.numel()))
        self.stash.end_step()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)


def main():
    dim, depth, rows = 1024, 12, 8192
    trainer = RecomputeTrainer(dim, depth, rows)
    x = torch.randn(rows, dim, device="cuda")
    target = torch.zeros_like(x)
    for _ in range(10):
        trainer.step(x, target)
    torch.cuda.synchronize()
    print("norm", sum(p.norm() for p in trainer.blocks.parameters()).item())


if __name__ == "__main__":
    main()
