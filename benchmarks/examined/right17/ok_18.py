"""Applies parameter updates during backward on a dedicated stream."""
from typing import Dict, Tuple

import torch
from torch import nn


class BackwardUpdater:
    def __init__(self, model: nn.Module, lr: float, momentum: float = 0.9):
        self.model = model
        self.lr = lr
        self.momentum = momentum
        self.device = next(model.parameters()).device
        self.stream = torch.cuda.Stream(device=self.device)
        self.velocity: Dict[nn.Parameter, torch.Tensor] = {}
        self.handles = []
        self._callback_queued = False
        with torch.no_grad():
            for p in model.parameters():
                if not p.requires_grad:
                    continue
                v = self.velocity[p] = torch.zeros_like(p)
                v.record_stream(self.stream)
                p.data.record_stream(self.stream)
                self.handles.append(p.register_post_accumulate_grad_hook(self._update))
        self.handles.append(model.register_forward_pre_hook(self._before_forward))
        self.handles.append(model.register_state_dict_pre_hook(self._before_state))

    def _before_forward(self, module: nn.Module, args: Tuple) -> None:
        self._callback_queued = False
        self.join()

    def _end_backward(self) -> None:
        self._callback_queued = False
        self.join()

    def _before_state(self, module: nn.Module, prefix: str, keep_vars: bool) -> None:
        self.join()

    @torch.no_grad()
    def _update(self, p: torch.Tensor) -> None:
        if not self._callback_queued:
            self._callback_queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        grad, p.grad = p.grad, None
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        grad.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            v = self.velocity[p]
            v.mul_(self.momentum).add_(grad)
            p.data.add_(v, alpha=-self.lr)

    def join(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def set_lr(self, lr: float) -> None:
        self.lr = lr

    def detach(self) -> None:
        self.join()
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


def weight_norm(updater: BackwardUpdater) -> float:
    updater.join()
    with torch.no_grad():
        norms = torch._foreach_norm([p.detach() for p in updater.model.parameters()])
        return torch.stack(norms).norm().item()


def train(model: nn.Module, batches, lr: float, epochs: int = 1) -> float:
    updater = BackwardUpdater(model, lr)
    loss = None
    try:
        for epoch in range(epochs):
            for x, y in batches:
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
            updater.set_lr(lr / (epoch + 2))
    finally:
        updater.detach()
    return float("nan") if loss is None else loss.item()
