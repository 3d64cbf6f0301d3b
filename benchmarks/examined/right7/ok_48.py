"""Reduced-precision shadow weights refreshed per layer."""
import weakref

import torch
from torch import nn


class CastCache:
    def __init__(self, model: nn.Module, opt: torch.optim.Optimizer):
        self.stream = torch.cuda.Stream()
        self.events = weakref.WeakKeyDictionary()
        self.layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
        for m in self.layers:
            m.register_buffer("weight_lp", torch.empty_like(m.weight, dtype=torch.bfloat16), persistent=False)
            m.forward = self._make_forward(m)
        opt.register_step_post_hook(lambda *_: self.refresh())
        self.refresh()

    @torch.no_grad()
    def refresh(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for m in self.layers:
                m.weight_lp.copy_(m.weight)
                self.events[m] = self.stream.record_event()

    def _make_forward(self, m):
        ref = weakref.ref(m)

        def forward(x):
            layer = ref()
            torch.cuda.current_stream().wait_event(self.events[layer])
            return LowPrecision.apply(x, layer.weight, layer.weight_lp) + layer.bias

        return forward


class LowPrecision(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, weight_lp):
        ctx.save_for_backward(x)
        ctx.weight_lp = weight_lp
        return (x.bfloat16() @ weight_lp.t()).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        g = grad.bfloat16()
        return (g @ ctx.weight_lp).float(), (g.t() @ x.bfloat16()).float(), None


def main():
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    cache = CastCache(model, opt)
    for _ in range(20):
        x = torch.randn(64, 256, device="cuda", requires_grad=True)
        loss = model(x).square().mean()
        loss.backward()
        for layer in cache.layers:
            torch.cuda.current_stream().wait_event(cache.events[layer])
        opt.step()
        opt.zero_grad()
    print(loss.item())


if __name__ == "__main__":
    main()
