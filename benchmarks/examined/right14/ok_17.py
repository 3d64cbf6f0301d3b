"""Exponential moving average of weights, updated beside the next forward pass."""
from __future__ import annotations

import contextlib

import torch
from torch import nn


class StreamEMA:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float = 0.999):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.decay = decay
        self.shadow = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream(self.device)
        for tensor in self.shadow + [p.data for p in self.params]:
            tensor.record_stream(self.stream)
        self.event = torch.cuda.Event()
        self._pre = optimizer.register_step_pre_hook(self._wait_hook)
        self._post = optimizer.register_step_post_hook(self._update_hook)

    def _wait_hook(self, optimizer, args, kwargs) -> None:
        self.wait()

    def _update_hook(self, optimizer, args, kwargs) -> None:
        self.update()

    def wait(self) -> None:
        self.event.wait(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def update(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, [p.data for p in self.params], 1.0 - self.decay)
        self.event.record(self.stream)

    @contextlib.contextmanager
    def applied(self):
        self.wait()
        with torch.no_grad():
            backup = [p.detach().clone() for p in self.params]
            torch._foreach_copy_([p.data for p in self.params], self.shadow)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_([p.data for p in self.params], backup)

    def close(self) -> None:
        self.wait()
        self._pre.remove()
        self._post.remove()


@torch.no_grad()
def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    return (model(x).argmax(1) == y).float().mean().item()


def fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int = 5) -> list[float]:
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = StreamEMA(model, opt, 0.99)
    scores = []
    try:
        for _ in range(epochs):
            for xb, yb in zip(x.split(256), y.split(256)):
                loss = nn.functional.cross_entropy(model(xb), yb)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
            with ema.applied():
                scores.append(accuracy(model, x, y))
    finally:
        ema.close()
    return scores


if __name__ == "__main__":
    dev = torch.device("cuda:0")
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(dev)
    print(fit(net, torch.randn(4096, 64, device=dev), torch.randint(0, 10, (4096,), device=dev)))
