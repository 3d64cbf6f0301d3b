"""8-bit working weights refreshed from full precision masters between steps."""
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F


class QuantLinear(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.master = nn.Parameter(torch.randn(out, inp) * inp ** -0.5)
        self.register_buffer("q", torch.zeros(out, inp, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(out, 1))

    @torch.no_grad()
    def refresh(self):
        self.scale.copy_(self.master.abs().amax(1, keepdim=True).clamp_(min=1e-8) / 127)
        self.q.copy_((self.master / self.scale).round_())

    def forward(self, x):
        dequant = self.q.to(x.dtype) * self.scale
        weight = self.master + (dequant - self.master).detach()
        return F.linear(x, weight)


class Requantizer:
    def __init__(self, model):
        self.layers = [m for m in model.modules() if isinstance(m, QuantLinear)]
        self.stream = torch.cuda.Stream()
        self.event = torch.cuda.Event()

    @contextmanager
    def on_stream(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.event.record(self.stream)
            yield

    def refresh(self):
        with self.on_stream():
            for layer in self.layers:
                layer.refresh()

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)


def main():
    model = nn.Sequential(*[m for _ in range(8) for m in (QuantLinear(2048, 2048), nn.ReLU())]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    requantizer = Requantizer(model)
    requantizer.refresh()
    for _ in range(1000):
        x = torch.randn(128, 2048, device="cuda")
        requantizer.wait()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        requantizer.refresh()


if __name__ == "__main__":
    main()
