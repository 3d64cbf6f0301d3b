"""Low-rank adapter evaluated next to the frozen projection."""
import torch
import torch.nn as nn


class AdapterBranch(torch.autograd.Function):
    stream = None

    @classmethod
    def get_stream(cls):
        if cls.stream is None:
            cls.stream = torch.cuda.Stream()
        return cls.stream

    @staticmethod
    def forward(ctx, x, base, down, up):
        side = AdapterBranch.get_stream()
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            low = x @ down
            delta = low @ up
        out = x @ base
        here.wait_stream(side)
        low.record_stream(here)
        delta.record_stream(here)
        ctx.save_for_backward(x, base, down, up, low)
        return out + delta

    @staticmethod
    def backward(ctx, grad):
        x, base, down, up, low = ctx.saved_tensors
        side = AdapterBranch.get_stream()
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            g_up = low.t() @ grad
            g_low = grad @ up.t()
            g_down = x.t() @ g_low
        gx = grad @ base.t()
        gx.addmm_(g_low, down.t())
        here.wait_stream(side)
        for t in (g_up, g_low, g_down):
            t.record_stream(here)
        return gx, None, g_down, g_up


class AdaptedLinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.register_buffer("base", torch.randn(dim, dim) * 0.02)
        self.down = nn.Parameter(torch.randn(dim, rank) * 0.02)
        self.up = nn.Parameter(torch.zeros(rank, dim))

    def forward(self, x):
        return AdapterBranch.apply(x, self.base, self.down, self.up)


def finetune(steps=200):
    model = nn.Sequential(*[AdaptedLinear(2048, 64) for _ in range(6)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        x = torch.randn(512, 2048, device="cuda")
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


finetune()
