"""Graphed forward and backward of a transformer block, with per-microbatch gradients."""
import torch
from torch import nn


def _warmup(module, static_x, params, iters=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(iters):
            y = module(static_x)
            torch.autograd.grad(y, (static_x,) + params, grad_outputs=torch.ones_like(y))
    torch.cuda.current_stream().wait_stream(side)


def make_graphed_callable(module, sample):
    """Capture module(sample) and its backward; returns a function with autograd support."""
    params = tuple(p for p in module.parameters() if p.requires_grad)
    static_x = sample.detach().clone().requires_grad_(True)
    _warmup(module, static_x, params)

    fwd_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(fwd_graph):
        static_y = module(static_x)

    static_dy = torch.empty_like(static_y)
    bwd_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(bwd_graph, pool=fwd_graph.pool()):
        static_grads = torch.autograd.grad(
            outputs=(static_y,), inputs=(static_x,) + params, grad_outputs=(static_dy,)
        )

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *flat_params):
            static_x.copy_(x)
            fwd_graph.replay()
            return static_y.detach().clone()

        @staticmethod
        def backward(ctx, dy):
            static_dy.copy_(dy)
            bwd_graph.replay()
            return tuple(g.detach() for g in static_grads)

    def call(x):
        return Graphed.apply(x, *params)

    return call, params


class Block(nn.Module):
    def __init__(self, width, heads=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        split = lambda t: t.view(b, s, self.heads, w // self.heads).transpose(1, 2)
        a = nn.functional.scaled_dot_product_attention(split(q), split(k), split(v))
        return x + self.proj(a.transpose(1, 2).reshape(b, s, w))


def microbatch_gradients(call, params, microbatches, targets):
    """Gradients of every microbatch, kept apart for the noise-scale estimate."""
    collected = []
    for x, target in zip(microbatches, targets):
        loss = nn.functional.mse_loss(call(x), target)
        grads = torch.autograd.grad(loss, params)
        collected.append(grads)
    return collected


def gradient_noise_scale(collected):
    n = len(collected)
    mean = [sum(gs) / n for gs in zip(*collected)]
    small = sum(sum(g.pow(2).sum() for g in grads) for grads in collected) / n
    big = sum(m.pow(2).sum() for m in mean)
    trace = (small - big) * n / (n - 1)
    return trace / (big - trace / n).clamp(min=1e-12)


def main(width=1024, seq=512, n_micro=8, steps=50, lr=1e-3):
    device = torch.device("cuda", 0)
    block = Block(width).to(device)
    call, params = make_graphed_callable(block, torch.randn(4, seq, width, device=device))
    for step in range(steps):
        xs = [torch.randn(4, seq, width, device=device) for _ in range(n_micro)]
        ys = [torch.randn(4, seq, width, device=device) for _ in range(n_micro)]
        collected = microbatch_gradients(call, params, xs, ys)
        with torch.no_grad():
            for p, *gs in zip(params, *collected):
                p.sub_(sum(gs) / n_micro, alpha=lr)
        if step % 10 == 0:
            print(step, gradient_noise_scale(collected).item())
