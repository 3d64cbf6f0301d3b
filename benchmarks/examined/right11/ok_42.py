from __future__ import annotations

import contextlib
from typing import Iterator

import torch
from torch import nn


class EmaCallback:
    """Exponential average of the weights, updated beside the next forward pass."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float = 0.999) -> None:
        self.live = [p for p in model.parameters()]
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.updated = torch.cuda.Event()
        self.shadow = [p.detach().clone() for p in self.live]
        self._handles = [
            optimizer.register_step_pre_hook(self._join),
            optimizer.register_step_post_hook(self._update),
        ]

    def _join(self, *unused) -> None:
        torch.cuda.current_stream().wait_event(self.updated)

    @torch.no_grad()
    def _update(self, *unused) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_mul_(self.shadow, self.decay)
            torch._foreach_add_(self.shadow, self.live, alpha=1.0 - self.decay)
            self.updated.record(self.stream)

    @contextlib.contextmanager
    def swapped(self) -> Iterator[None]:
        self._join()
        saved = [p.detach().clone() for p in self.live]
        with torch.no_grad():
            torch._foreach_copy_(self.live, self.shadow)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.live, saved)


def evaluate(model: nn.Module) -> float:
    with torch.no_grad():
        x = torch.linspace(-2, 2, 512, device="cuda").unsqueeze(1)
        return (model(x) - torch.sin(3 * x)).abs().mean().item()


def main() -> None:
    model = nn.Sequential(nn.Linear(1, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    ema = EmaCallback(model, opt)
    for step in range(1000):
        x = torch.rand(256, 1, device="cuda") * 4 - 2
        loss = (model(x) - torch.sin(3 * x)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 250 == 249:
            with ema.swapped():
                averaged = evaluate(model)
            print(step, evaluate(model), averaged)


if __name__ == "__main__":
    main()
