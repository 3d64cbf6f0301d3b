"""Block inputs are kept on the host; the backward pass recomputes each block from them."""
import torch
import torch.nn as nn


class Entry:
    def __init__(self, host, offloaded):
        self.host, self.offloaded = host, offloaded
        self.gpu = self.loaded = None


class InputStore:
    def __init__(self):
        self.d2h, self.h2d = torch.cuda.Stream(), torch.cuda.Stream()
        self.entries = []

    def push(self, x):
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            host.copy_(x, non_blocking=True)
            event = self.d2h.record_event()
        x.record_stream(self.d2h)
        self.entries.append(Entry(host, event))

    def prefetch(self):
        if not self.entries or self.entries[-1].gpu is not None:
            return
        entry = self.entries[-1]
        with torch.cuda.stream(self.h2d):
            self.h2d.wait_event(entry.offloaded)
            entry.gpu = entry.host.to("cuda", non_blocking=True)
            entry.loaded = self.h2d.record_event()

    def pop(self):
        entry = self.entries.pop()
        current = torch.cuda.current_stream()
        if entry.gpu is None:
            current.wait_event(entry.offloaded)
            return entry.host.to("cuda", non_blocking=True)
        current.wait_event(entry.loaded)
        entry.gpu.record_stream(current)
        return entry.gpu


class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block, store):
        ctx.block, ctx.store = block, store
        store.push(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.store.pop().detach().requires_grad_()
        ctx.store.prefetch()
        with torch.enable_grad():
            y = ctx.block(x)
        torch.autograd.backward(y, grad)
        return x.grad, None, None


def main():
    blocks = [nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).cuda() for _ in range(12)]
    stem = nn.Linear(64, 2048).cuda()
    params = list(stem.parameters()) + [p for b in blocks for p in b.parameters()]
    optimizer = torch.optim.AdamW(params, lr=1e-4)
    store = InputStore()
    for _ in range(200):
        h = stem(torch.randn(4096, 64, device="cuda"))
        for block in blocks:
            h = Recompute.apply(h, block, store)
        h.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
