"""Exponential moving average of activations, computed off the main path."""
import contextlib

import torch
import torch.nn as nn


class Companion:
    """A stream that works on results of the main stream."""

    def __init__(self):
        self.main = torch.cuda.current_stream()
        self.stream = torch.cuda.Stream()

    @contextlib.contextmanager
    def follow(self):
        self.stream.wait_stream(self.main)
        with torch.cuda.stream(self.stream):
            yield self.stream


class ActivationTracker:
    """Forward hook that keeps mean and deviation of a layer's output."""

    def __init__(self, module, width, decay=0.98):
        self.decay = decay
        self.companion = Companion()
        self.mean = torch.zeros(width, device="cuda")
        self.deviation = torch.ones(width, device="cuda")
        module.register_forward_hook(self._observe)

    def _observe(self, module, inputs, output):
        with torch.no_grad(), self.companion.follow() as stream:
            flat = output.flatten(0, -2)
            self.mean.lerp_(flat.mean(dim=0), 1.0 - self.decay)
            self.deviation.lerp_(flat.std(dim=0), 1.0 - self.decay)
            output.record_stream(stream)

    def summary(self):
        self.companion.stream.synchronize()
        return self.mean.mean().item(), self.deviation.mean().item()


class Encoder(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


def train(steps=100, width=1024):
    encoder = Encoder(width).cuda()
    tracker = ActivationTracker(encoder.inner, 4 * width)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-4)
    work = torch.cuda.Stream()
    work.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(work):
        for _ in range(steps):
            x = torch.randn(64, 128, width, device="cuda")
            loss = (encoder(x) - x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    work.synchronize()
    return tracker.summary()


if __name__ == "__main__":
    print(train())
