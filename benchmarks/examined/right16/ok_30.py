"""Exponential moving average of the weights, maintained on a background stream."""
from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch


class BackgroundEMA:
    def __init__(self, model: torch.nn.Module, optim: torch.optim.Optimizer, decay: float, device: torch.device):
        self.decay = decay
        self.device = device
        self.model = model
        self._live = [p for p in model.parameters()]
        self._shadow = [p.detach().clone() for p in self._live]
        self._stream = torch.cuda.Stream(device=device)
        for tensor in self._shadow:
            tensor.record_stream(self._stream)
        for param in self._live:
            param.detach().record_stream(self._stream)
        self._settled = torch.cuda.Event()
        self._handles = [
            optim.register_step_pre_hook(lambda *_: self._settle()),
            optim.register_step_post_hook(lambda *_: self.update()),
        ]

    def _settle(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self._settled)

    @torch.no_grad()
    def update(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(self._stream):
                torch._foreach_lerp_(self._shadow, self._live, 1.0 - self.decay)
        finally:
            self._settled.record(self._stream)

    @contextlib.contextmanager
    def applied(self) -> Iterator[torch.nn.Module]:
        self._settle()
        clone = copy.deepcopy(self.model)
        with torch.no_grad():
            for target, source in zip(clone.parameters(), self._shadow, strict=True):
                target.copy_(source)
        yield clone.eval()

    @torch.no_grad()
    def restore_into(self, model: torch.nn.Module) -> None:
        self._settle()
        for target, source in zip(model.parameters(), self._shadow, strict=True):
            target.copy_(source)

    def close(self) -> None:
        self._settle()
        for handle in self._handles:
            handle.remove()


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    ema = BackgroundEMA(model, optim, 0.99, device)
    probe = torch.randn(1024, 32, device=device)
    for step in range(300):
        x = torch.randn(256, 32, device=device)
        loss = (model(x) - x.sum(dim=1, keepdim=True).sin()).square().mean()
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        if step % 100 == 99:
            with ema.applied() as averaged, torch.no_grad():
                error = (averaged(probe) - probe.sum(dim=1, keepdim=True).sin()).square().mean()
            print(step, loss.item(), error.item())
    ema.restore_into(model)
    ema.close()


if __name__ == "__main__":
    main()
