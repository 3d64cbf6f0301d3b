"""Exponential moving average of weights beside the next forward pass."""
import contextlib

import torch
from torch import nn


class SideEMA:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float = 0.999):
        self.params = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.params]
        self.weight = 1.0 - decay
        self.stream = torch.cuda.Stream()
        self._averaged = None
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        if self._averaged is not None:
            torch.cuda.current_stream().wait_event(self._averaged)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for s, p in zip(self.shadow, self.params):
                s.lerp_(p.detach(), self.weight)
            self._averaged = self.stream.record_event()

    @contextlib.contextmanager
    def evaluating(self):
        """Run the body with averaged weights."""
        if self._averaged is not None:
            torch.cuda.current_stream().wait_event(self._averaged)
        backup = [p.detach().clone() for p in self.params]
        with torch.no_grad():
            for p, s in zip(self.params, self.shadow):
                p.copy_(s)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, b in zip(self.params, backup):
                    p.copy_(b)


def main():
    model = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 128)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = SideEMA(model, opt, decay=0.99)
    held_out = torch.randn(256, 128, device="cuda")
    for step in range(300):
        x = torch.randn(64, 128, device="cuda")
        loss = (model(x) - x.cumsum(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99:
            with ema.evaluating(), torch.no_grad():
                print(step, (model(held_out) - held_out.cumsum(1)).square().mean().item())


if __name__ == "__main__":
    main()
