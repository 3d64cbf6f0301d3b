"""Recompute trainer whose block inputs travel through a small ring of pinned slots."""
import torch
import torch.nn as nn


class Slot:
    def __init__(self, shape, dtype):
        self.host = torch.empty(shape, dtype=dtype, pin_memory=True)
        self.device = torch.empty(shape, dtype=dtype, device="cuda")
        self.stored = torch.cuda.Event()
        self.loaded = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class ActivationPager:
    """One copy stream in both directions; events give the order to compute."""

    def __init__(self, depth, shape, dtype=torch.float32):
        self.io = torch.cuda.Stream()
        self.slots = [Slot(shape, dtype) for _ in range(depth)]
        self.live = {}

    def page_out(self, i, x):
        slot = self.slots[i]
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.io):
            self.io.wait_stream(compute)
            slot.host.copy_(x, non_blocking=True)
            slot.stored.record()
        self.live[i] = x

    def trim(self, keep):
        """Drop device copies that compute has passed and that the host already holds."""
        for i in [k for k in self.live if k < keep]:
            torch.cuda.current_stream().wait_event(self.slots[i].stored)
            del self.live[i]

    def prefetch(self, i):
        if i < 0 or i in self.live:
            return
        slot = self.slots[i]
        with torch.cuda.stream(self.io):
            self.io.wait_event(slot.consumed)
            slot.device.copy_(slot.host, non_blocking=True)
            slot.loaded.record()

    def fetch(self, i):
        slot = self.slots[i]
        if i in self.live:
            torch.cuda.current_stream().wait_event(slot.stored)
            return self.live.pop(i)
        torch.cuda.current_stream().wait_event(slot.loaded)
        return slot.device.clone()

    def done(self, i):
        self.slots[i].consumed.record()


class ConvBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class PagedStack:
    def __init__(self, ch, depth, shape, lag=2):
        self.blocks = nn.ModuleList(ConvBlock(ch) for _ in range(depth)).cuda()
        self.pager = ActivationPager(depth, shape)
        self.lag = lag

    @torch.no_grad()
    def forward(self, x):
        for i, block in enumerate(self.blocks):
            self.pager.page_out(i, x)
            x = block(x)
            self.pager.trim(i - self.lag)
        return x

    def backward(self, grad):
        last = len(self.blocks) - 1
        for i in range(last, -1, -1):
            x = self.pager.fetch(i).detach().requires_grad_()
            self.pager.done(i)
            self.pager.prefetch(i - 1)
            self.blocks[i](x).backward(grad)
            grad = x.grad
        return grad


def main(steps=6, depth=10, ch=64, side=128, batch=16):
    torch.manual_seed(0)
    shape = (batch, ch, side, side)
    stack = PagedStack(ch, depth, shape)
    opt = torch.optim.SGD(stack.blocks.parameters(), lr=1e-3)
    x = torch.randn(shape, device="cuda")
    for _ in range(steps):
        y = stack.forward(x)
        stack.backward(y / y.numel())
        opt.step()
        opt.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print(sum(p.norm() for p in stack.blocks.parameters()).item())


if __name__ == "__main__":
    main()
