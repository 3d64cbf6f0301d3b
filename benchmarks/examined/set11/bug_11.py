"""Whole-step CUDA graph for small models: forward, backward and optimizer in one replay."""
from dataclasses import dataclass
from typing import Callable, List

import torch
from torch import nn


@dataclass
class GraphConfig:
    warmup_iters: int = 3
    log_every: int = 50


class GraphedTrainStep:
    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        sample_input: torch.Tensor,
        sample_target: torch.Tensor,
        config: GraphConfig = GraphConfig(),
    ):
        self.model = model
        self.optimizer = optimizer
        self.loss_fn = loss_fn
        self.config = config
        self.static_input = sample_input.clone()
        self.static_target = sample_target.clone()
        self.warmup_losses: List[torch.Tensor] = []
        self.graph = torch.cuda.CUDAGraph()

        self._warmup()
        self._capture()

    def _forward_backward(self) -> torch.Tensor:
        loss = self.loss_fn(self.model(self.static_input), self.static_target)
        loss.backward()
        return loss

    def _warmup(self) -> None:
        for _ in range(self.config.warmup_iters):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._forward_backward()
            self.optimizer.step()
            self.warmup_losses.append(loss)
        torch.cuda.synchronize()

    def _capture(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.static_loss = self._forward_backward()
            self.optimizer.step()

    def __call__(self, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.static_input.copy_(inputs, non_blocking=True)
        self.static_target.copy_(target, non_blocking=True)
        self.graph.replay()
        return self.static_loss


def fit(model: nn.Module, loader, lr: float, config: GraphConfig = GraphConfig()) -> List[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    step, history = None, []
    for i, (inputs, target) in enumerate(loader):
        inputs, target = inputs.cuda(non_blocking=True), target.cuda(non_blocking=True)
        if step is None:
            step = GraphedTrainStep(model, optimizer, nn.functional.cross_entropy, inputs, target, config)
        loss = step(inputs, target)
        if i % config.log_every == 0:
            history.append(loss.item())
    return history
