"""Optimizer whose update runs on its own stream and is joined by the next forward."""
from __future__ import annotations

from collections.abc import Callable

import torch


class OverlappedOptimizer:
    """Parameters are up to date after a forward call, a state dict or ``join``."""

    def __init__(
        self,
        module: torch.nn.Module,
        make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
        device: torch.device,
    ):
        self.device = device
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.inner = make(self.params)
        self.stream = torch.cuda.Stream(device=device)
        self._done = torch.cuda.Event()
        for param in self.params:
            param.detach().record_stream(self.stream)
        for child in module.modules():
            child.register_forward_pre_hook(lambda *_: self.join())
            child.register_state_dict_pre_hook(lambda *_: self.join())

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self._done)

    def step(self, max_norm: float | None = None) -> None:
        self.join()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.params, max_norm)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(self.stream):
                self.inner.step()
        finally:
            self._done.record(self.stream)
            for param in self.params:
                if param.grad is not None:
                    param.grad.record_stream(self.stream)
                    param.grad = None

    def state_dict(self) -> dict:
        self.join()
        return self.inner.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.join()
        self.inner.load_state_dict(state)


class Model(torch.nn.Module):
    def __init__(self, width: int, classes: int):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU())
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    model = Model(512, 10).to(device)
    optim = OverlappedOptimizer(model, lambda ps: torch.optim.AdamW(ps, lr=1e-3), device)
    data = torch.randn(4096, 512)
    target = torch.randint(0, 10, (4096,))
    for epoch in range(2):
        for lo in range(0, 4096, 256):
            x = data[lo : lo + 256].to(device)
            y = target[lo : lo + 256].to(device)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optim.step(max_norm=1.0)
        weights = {name: value.cpu() for name, value in model.state_dict().items()}
        features = model.encoder(x).detach()
        print(epoch, loss.item(), features.mean().item(), len(weights))
    torch.save({"model": weights, "optim": optim.state_dict()}, "/tmp/overlapped.pt")


if __name__ == "__main__":
    main()
