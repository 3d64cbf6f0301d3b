"""Gradient archive: parameter gradients are copied to the host during backward."""
from collections import deque

import torch
import torch.nn as nn


class GradientArchive:
    """Post-accumulate hooks copy each gradient out on a side stream."""

    def __init__(self, model, device, window=8):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.inflight = deque()
        self.window = window
        self.host = {}
        self.handles = []
        for name, p in model.named_parameters():
            self.host[name] = torch.empty(p.shape, dtype=torch.float32, pin_memory=True)
            hook = self._make_hook(name)
            self.handles.append(p.register_post_accumulate_grad_hook(hook))

    def _make_hook(self, name):
        def hook(param):
            grad = param.grad
            param.grad = None
            self._push(name, grad)
        return hook

    def _push(self, name, grad):
        while len(self.inflight) >= self.window:
            self._retire()
        snap = grad.float()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.host[name].copy_(snap, non_blocking=True)
            done = self.stream.record_event()
        self.inflight.append((done, snap))

    def _retire(self):
        done, snap = self.inflight.popleft()
        done.synchronize()
        del snap

    def flush(self):
        while self.inflight:
            self._retire()
        return self.host

    def close(self):
        for h in self.handles:
            h.remove()


def make_model(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def host_sgd(params, grads, lr):
    with torch.no_grad():
        for name, p in params:
            p.add_(grads[name].to(p.device), alpha=-lr)


def main(width=2048, depth=10, steps=20):
    device = torch.device("cuda:0")
    torch.manual_seed(0)
    model = make_model(width, depth).to(device)
    archive = GradientArchive(model, device)
    params = list(model.named_parameters())
    for step in range(steps):
        x = torch.randn(512, width, device=device)
        loss = model(x).square().mean()
        loss.backward()
        grads = archive.flush()
        norm = sum(float(g.square().sum()) for g in grads.values()) ** 0.5
        host_sgd(params, grads, lr=1e-3)
        if step % 5 == 0:
            print(step, float(loss), norm)
    archive.close()


if __name__ == "__main__":
    main()
