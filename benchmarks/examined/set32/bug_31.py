"""Per-layer gradient statistics that are gathered beside the backward pass."""
from collections import OrderedDict

import torch
import torch.nn as nn


class GradientProbe:
    """Running second moments of activation gradients."""

    def __init__(self, device="cuda", momentum=0.95):
        self.device = torch.device(device)
        self.stats_stream = torch.cuda.Stream(self.device)
        self.momentum = momentum
        self.acc = OrderedDict()
        self.handles = []
        self.enabled = True

    def attach(self, model, kinds=(nn.Linear, nn.Conv2d)):
        for name, module in model.named_modules():
            if isinstance(module, kinds):
                self.handles.append(module.register_forward_hook(self._forward_hook(name)))
        return self

    def detach(self):
        for h in self.handles:
            h.remove()
        self.handles.clear()

    def _forward_hook(self, name):
        def hook(module, inputs, output):
            if self.enabled and output.requires_grad:
                output.register_hook(self._grad_hook(name))

        return hook

    def _grad_hook(self, name):
        def hook(grad):
            self._accumulate(name, grad)
            return None

        return hook

    def _accumulate(self, name, grad):
        channels = grad.shape[1] if grad.dim() > 2 else grad.shape[-1]
        if name not in self.acc:
            with torch.cuda.stream(self.stats_stream):
                self.acc[name] = torch.zeros(channels, device=self.device)
        self.stats_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stats_stream):
            flat = grad.transpose(0, 1).flatten(1) if grad.dim() > 2 else grad.flatten(0, -2).t()
            moment = flat.float().square().mean(1)
            self.acc[name].mul_(self.momentum).add_(moment, alpha=1 - self.momentum)

    def snapshot(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stats_stream)
        return {k: v.clone() for k, v in self.acc.items()}


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train(loader, epochs=1, every=200):
    model = make_model().cuda()
    probe = GradientProbe().attach(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    history = []
    step = 0
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
            step += 1
            if step % every == 0:
                history.append({k: v.cpu() for k, v in probe.snapshot().items()})
    probe.detach()
    return history
