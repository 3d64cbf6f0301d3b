"""Gradient clipping wrapper that tracks the total gradient norm of every step."""
import enum
import math
from collections import deque

import torch
from torch import nn


class GradientClipping(enum.Enum):
    NORM = "norm"
    VALUE = "value"
    NONE = "none"


class GradNormReporter:
    """Host-side history of gradient norms with simple spike detection."""

    def __init__(self, window=50):
        self.window = deque(maxlen=window)
        self.spikes = 0

    def publish(self, norm):
        if self.window and norm > 5.0 * (sum(self.window) / len(self.window)):
            self.spikes += 1
        if math.isfinite(norm):
            self.window.append(norm)


class GradientClippingOptimizer:
    def __init__(self, optimizer, clipping=GradientClipping.NONE, max_gradient=0.1,
                 norm_type=2.0, track_grad_norm=False):
        self.optimizer = optimizer
        self.clipping = clipping
        self.max_gradient = max_gradient
        self.norm_type = norm_type
        self.track_grad_norm = track_grad_norm
        self.params = [p for g in optimizer.param_groups for p in g["params"]]
        self.last_total_grad_norm = None
        self._sharded_norm = torch.zeros((), pin_memory=True)

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _compute_total_norm(self, grads):
        norms = torch._foreach_norm(grads, self.norm_type)
        replicated = torch.linalg.vector_norm(torch.stack(norms), self.norm_type)
        self._sharded_norm.copy_(replicated, non_blocking=True)
        return self._sharded_norm

    @torch.no_grad()
    def compute_total_grad_norm(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        if not grads:
            return 0.0
        return float(self._compute_total_norm(grads))

    def step(self):
        if self.clipping is GradientClipping.NORM:
            total = nn.utils.clip_grad_norm_(self.params, self.max_gradient, self.norm_type)
            if self.track_grad_norm:
                self.last_total_grad_norm = total.item()
        else:
            if self.track_grad_norm:
                self.last_total_grad_norm = self.compute_total_grad_norm()
            if self.clipping is GradientClipping.VALUE:
                nn.utils.clip_grad_value_(self.params, self.max_gradient)
        self.optimizer.step()


def train(model, optimizer, reporter, steps):
    loss_sum = torch.zeros((), device="cuda")
    for _ in range(steps):
        x = torch.randn(2048, 1024, device="cuda")
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        loss_sum += loss.detach()
        reporter.publish(optimizer.last_total_grad_norm)
    return loss_sum / steps


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    optimizer = GradientClippingOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9),
        clipping=GradientClipping.VALUE, track_grad_norm=True)
    reporter = GradNormReporter()
    mean_loss = train(model, optimizer, reporter, steps=200)
    print(mean_loss.item(), reporter.spikes, list(reporter.window)[-3:])


if __name__ == "__main__":
    main()
