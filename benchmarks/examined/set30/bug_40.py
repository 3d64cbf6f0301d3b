"""Collects gradients into a flat buffer from hooks, on a dedicated stream."""
import torch
from torch import nn


class FlatGradients:
    def __init__(self, module, device="cuda"):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.stream = torch.cuda.Stream(device)
        total = sum(p.numel() for p in self.params)
        self.flat = torch.zeros(total, device=device)
        self.spans = {}
        offset = 0
        for p in self.params:
            self.spans[p] = (offset, offset + p.numel())
            p.register_post_accumulate_grad_hook(self._collect)
            offset += p.numel()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _collect(self, p):
        lo, hi = self.spans[p]
        with torch.cuda.stream(self.stream):
            self.flat[lo:hi].copy_(p.grad.reshape(-1))

    def backward(self, loss):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss.backward()

    def compress(self, keep=0.01):
        with torch.cuda.stream(self.stream):
            k = max(1, int(keep * self.flat.numel()))
            index = self.flat.abs().topk(k).indices
            values = self.flat[index]
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        index.record_stream(current)
        values.record_stream(current)
        return index, values


class SparseUpdater:
    def __init__(self, module, lr=0.05):
        self.module = module
        self.lr = lr
        self.grads = FlatGradients(module)

    @torch.no_grad()
    def apply(self, index, values):
        update = torch.zeros_like(self.grads.flat)
        update[index] = values
        for p in self.grads.params:
            lo, hi = self.grads.spans[p]
            p.sub_(self.lr * update[lo:hi].view_as(p))

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.module(x), y)
        self.grads.backward(loss)
        index, values = self.grads.compress()
        self.apply(index, values)
        for p in self.grads.params:
            p.grad.zero_()
        return loss.detach()


def main(width=4096, depth=6, steps=20):
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)]).cuda()
    updater = SparseUpdater(net)
    total = torch.zeros((), device="cuda")
    for _ in range(steps):
        x = torch.randn(512, width, device="cuda")
        total += updater.step(x, x.flip(-1))
    return total.item() / steps


if __name__ == "__main__":
    print(main())
