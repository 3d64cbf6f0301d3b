"""Trainer whose optimizer and master weights live in host memory."""
import torch
from torch import nn


class HostOptimizerTrainer:
    def __init__(self, model, lr=1e-3, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.grads = {}
        self.master = {}
        self.handles = []
        for name, p in self.model.named_parameters():
            self.master[name] = nn.Parameter(p.detach().float().cpu().clone())
            self.handles.append(
                p.register_post_accumulate_grad_hook(self._make_hook(name))
            )
        self.opt = torch.optim.AdamW(self.master.values(), lr=lr)

    def _make_hook(self, name):
        def hook(param):
            self.grads[name] = param.grad.to("cpu", non_blocking=True)
            param.grad = None
        return hook

    def forward_backward(self, inputs, targets):
        inputs = inputs.to(self.device, non_blocking=True)
        targets = targets.to(self.device, non_blocking=True)
        loss = nn.functional.cross_entropy(self.model(inputs), targets)
        loss.backward()
        return loss.detach()

    @torch.no_grad()
    def step(self, max_norm=1.0):
        for name, master in self.master.items():
            grad = self.grads.pop(name, None)
            master.grad = None if grad is None else grad.float()
        nn.utils.clip_grad_norm_(list(self.master.values()), max_norm)
        self.opt.step()
        for name, p in self.model.named_parameters():
            p.copy_(self.master[name])

    def fit(self, loader, epochs=1, log_every=50):
        running = torch.zeros((), device=self.device)
        for epoch in range(epochs):
            for i, (inputs, targets) in enumerate(loader):
                running += self.forward_backward(inputs, targets)
                self.step()
                if (i + 1) % log_every == 0:
                    print(epoch, i, (running / log_every).item())
                    running.zero_()

    def close(self):
        for handle in self.handles:
            handle.remove()


def build(width=2048, classes=1000, depth=6):
    layers = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    layers.append(nn.Linear(width, classes))
    return HostOptimizerTrainer(nn.Sequential(*layers))
