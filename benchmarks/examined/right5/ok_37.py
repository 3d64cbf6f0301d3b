from typing import List, Tuple

import torch
from torch import nn


class WeightGradStore:
    """Holds (input, grad_output) pairs so that weight gradients can run later."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pending: List[Tuple[nn.Parameter, torch.Tensor, torch.Tensor]] = []
        self.in_flight: List[Tuple[nn.Parameter, torch.Tensor, torch.Tensor]] = []

    def put(self, weight, x, grad_out):
        self.pending.append((weight, x, grad_out))

    def flush(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for weight, x, g in self.pending:
                weight.main_grad.addmm_(g.flatten(0, -2).t(), x.flatten(0, -2))
        self.in_flight += self.pending
        self.pending = []

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        self.in_flight.clear()


STORE = WeightGradStore()


class DeferredLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        STORE.put(weight, x, grad_out)
        return grad_out @ weight, None


class Linear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim, device="cuda") * dim ** -0.5)
        self.weight.main_grad = torch.zeros_like(self.weight)

    def forward(self, x):
        return torch.tanh(DeferredLinear.apply(x, self.weight))


def main():
    layers = nn.Sequential(*[Linear(1024) for _ in range(6)])
    params = list(layers.parameters())
    for step in range(20):
        for micro in range(4):
            x = torch.randn(64, 1024, device="cuda", requires_grad=True)
            layers(x).square().mean().backward()
            STORE.flush()
        STORE.finish()
        with torch.no_grad():
            for p in params:
                p.add_(p.main_grad, alpha=-0.1)
                p.main_grad.zero_()
    print(sum(p.norm().item() for p in params))


if __name__ == "__main__":
    main()
