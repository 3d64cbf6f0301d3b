"""A compiled training plan: the whole step is captured once and replayed."""
from __future__ import annotations

from typing import Callable

import torch
from torch import nn


class CompiledTrainingPlan:
    def __init__(self, model: nn.Module, loss_fn: Callable, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.static_x = batch[0].clone()
        self.static_y = batch[1].clone()
        self.static_loss = torch.zeros((), device="cuda")
        self.graph: torch.cuda.CUDAGraph | None = None
        self.configure_momentum(lr=1e-2)

    def configure_momentum(self, lr: float, momentum: float = 0.9) -> None:
        self.lr = torch.full((), lr, device="cuda")
        self.buffers = [(torch.zeros_like(p.data),) for p in self.params]
        self.apply_update = lambda p, g, b: self._momentum(p, g, b[0], momentum)

    def configure_adam(self, lr: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        self.lr = torch.full((), lr, device="cuda")
        self.buffers = [(torch.zeros_like(p.data), torch.zeros_like(p.data)) for p in self.params]
        self.apply_update = lambda p, g, b: self._adam(p, g, b[0], b[1], betas)

    def _momentum(self, p, g, m, momentum: float) -> None:
        m.mul_(momentum).add_(g)
        p.sub_(self.lr * m)

    def _adam(self, p, g, m, v, betas: tuple[float, float]) -> None:
        m.mul_(betas[0]).add_(g, alpha=1 - betas[0])
        v.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        p.sub_(self.lr * m / (v.sqrt() + 1e-8))

    def _run(self) -> None:
        loss = self.loss_fn(self.model(self.static_x), self.static_y)
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            for p, g, b in zip(self.params, grads, self.buffers):
                self.apply_update(p, g, b)
            self.static_loss.copy_(loss)

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._run()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.static_x.copy_(x)
        self.static_y.copy_(y)
        if self.graph is None:
            self._capture()
        self.graph.replay()
        return self.static_loss


def make_batch(n: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, dim, device="cuda")
    return x, torch.sin(x[:, :8])


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8)).cuda()
    plan = CompiledTrainingPlan(model, nn.functional.mse_loss, make_batch(512, 256))
    history = []
    for step in range(400):
        if step == 100:
            plan.configure_adam(lr=1e-3)
        elif step == 300:
            plan.configure_adam(lr=1e-4)
        loss = plan.step(*make_batch(512, 256))
        if step % 50 == 49:
            history.append(loss.item())
    print(history)


if __name__ == "__main__":
    main()
