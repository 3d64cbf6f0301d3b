"""Exponential moving average of weights on its own stream, tied to the optimizer by hooks."""
import copy

import torch
from torch import nn


class AsyncEMA:
    def __init__(self, model, optimizer, decay=0.999):
        self.source = list(model.parameters())
        self.shadow_model = copy.deepcopy(model).requires_grad_(False)
        self.shadow = list(self.shadow_model.parameters())
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.fences = {}
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        read = self.fences.pop("read", None)
        if read is not None:
            torch.cuda.current_stream().wait_event(read)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, self.source, 1.0 - self.decay)
            self.fences["read"] = self.stream.record_event()

    def evaluate(self, fn):
        with torch.no_grad(), torch.cuda.stream(self.stream):
            result = fn(self.shadow_model)
            return result.item()


def main(steps=400):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = AsyncEMA(model, opt)
    held_out = torch.randn(1024, 64, device="cuda")
    held_out_y = held_out.sin().sum(-1, keepdim=True)
    torch.cuda.current_stream().synchronize()

    def validation(m):
        return (m(held_out) - held_out_y).square().mean()

    for step in range(steps):
        x = torch.randn(256, 64, device="cuda")
        loss = (model(x) - x.sin().sum(-1, keepdim=True)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 100 == 99:
            print(step, loss.item(), ema.evaluate(validation))


if __name__ == "__main__":
    main()
