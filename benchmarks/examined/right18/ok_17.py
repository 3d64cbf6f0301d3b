"""Momentum SGD whose update overlaps with data preparation."""
import torch
import torch.nn as nn


class OverlappedSGD:
    def __init__(self, model, lr=0.01, momentum=0.9):
        self.model = model
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.lr = lr
        self.momentum = momentum
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.velocity = [torch.zeros_like(p) for p in self.params]
        for p in self.params:
            p.record_stream(self.stream)
        self.updated = torch.cuda.Event()
        model.register_forward_pre_hook(self._before_forward)
        model.register_state_dict_pre_hook(self._before_state_dict)

    def _before_forward(self, module, args):
        self.settle()

    def _before_state_dict(self, module, prefix, keep_vars):
        self.settle()

    def settle(self):
        torch.cuda.current_stream(self.device).wait_event(self.updated)

    @torch.no_grad()
    def step(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for p, v in zip(self.params, self.velocity):
                grad = p.grad
                if grad is None:
                    continue
                v.mul_(self.momentum).add_(grad)
                p.add_(v, alpha=-self.lr)
                grad.record_stream(self.stream)
                p.grad = None
            self.updated.record(self.stream)


def make_batch(generator, rows, width, device):
    x = torch.randn(rows, width, generator=generator, device=device)
    y = x.roll(1, dims=1).tanh()
    return x, y


def run(steps=100, width=512, rows=4096, device="cuda"):
    generator = torch.Generator(device=device).manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
    ).to(device)
    optimizer = OverlappedSGD(model)
    x, y = make_batch(generator, rows, width, device)
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        x, y = make_batch(generator, rows, width, device)
    optimizer.settle()
    return torch.stack(losses).tolist(), [p.norm().item() for p in model.parameters()]
