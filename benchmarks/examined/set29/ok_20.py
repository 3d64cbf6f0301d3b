"""Captured forward-backward with in-place gradient accumulation and staged inputs."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator

import torch
from torch import nn


@dataclass
class InputStage:
    x: torch.Tensor
    y: torch.Tensor
    uploaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    consumed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class StagedInputs:
    """Uploads micro-batch k + 1 while micro-batch k is being replayed."""

    def __init__(self, source: Iterator[tuple[torch.Tensor, torch.Tensor]], shape_x, shape_y) -> None:
        self.source = source
        self.stream = torch.cuda.Stream()
        self.stages = [
            InputStage(torch.empty(shape_x, device="cuda"), torch.empty(shape_y, device="cuda"))
            for _ in range(2)
        ]
        self.head = 0
        self.stream.wait_stream(torch.cuda.current_stream())
        self._upload(self.stages[0])

    def _upload(self, stage: InputStage) -> None:
        x, y = next(self.source)
        x, y = x.pin_memory(), y.pin_memory()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(stage.consumed)
            stage.x.copy_(x, non_blocking=True)
            stage.y.copy_(y, non_blocking=True)
            stage.uploaded.record(self.stream)

    def load_into(self, static_x: torch.Tensor, static_y: torch.Tensor) -> None:
        stage = self.stages[self.head]
        self.head = 1 - self.head
        torch.cuda.current_stream().wait_event(stage.uploaded)
        static_x.copy_(stage.x)
        static_y.copy_(stage.y)
        stage.consumed.record()
        self._upload(self.stages[self.head])


class GradState:
    def __init__(self, params: list[nn.Parameter]) -> None:
        self.params = params
        self.buffers = [torch.zeros_like(p) for p in params]
        for p, b in zip(params, self.buffers):
            p.grad = b

    def zero(self) -> None:
        torch._foreach_zero_(self.buffers)

    def accumulate(self, grads) -> None:
        torch._foreach_add_(self.buffers, list(grads))


class GraphTrainer:
    def __init__(self, model: nn.Module, inputs: StagedInputs, accumulation: int, shape_x, shape_y) -> None:
        self.model = model
        self.inputs = inputs
        self.accumulation = accumulation
        self.grads = GradState([p for p in model.parameters() if p.requires_grad])
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.static_x = torch.zeros(shape_x, device="cuda")
        self.static_y = torch.zeros(shape_y, device="cuda")
        self.loss_sum = torch.zeros((), device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _fwd_bwd(self) -> None:
        loss = nn.functional.mse_loss(self.model(self.static_x), self.static_y) / self.accumulation
        self.grads.accumulate(torch.autograd.grad(loss, self.grads.params))
        self.loss_sum.add_(loss.detach())

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._fwd_bwd()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self._fwd_bwd()

    def step(self) -> torch.Tensor:
        self.grads.zero()
        self.loss_sum.zero_()
        for _ in range(self.accumulation):
            self.inputs.load_into(self.static_x, self.static_y)
            self.graph.replay()
        self.optimizer.step()
        return self.loss_sum.clone()


def synthetic(n: int, dim: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    while True:
        x = torch.randn(n, dim)
        yield x, x[:, :4].cos()


def main() -> None:
    net = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 4)).cuda()
    inputs = StagedInputs(synthetic(256, 128), (256, 128), (256, 4))
    trainer = GraphTrainer(net, inputs, 4, (256, 128), (256, 4))
    losses = [trainer.step() for _ in range(50)]
    print(torch.stack(losses).tolist()[-5:])


if __name__ == "__main__":
    main()
