"""Calibrated int8 linear stack, captured once: warm-up passes fix the activation scales."""
import torch
from torch import nn


class QuantLinear(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        weight = torch.randn(fout, fin) / fin ** 0.5
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("qweight", (weight / scale).round().to(torch.int8))
        self.register_buffer("wscale", scale)
        self.register_buffer("amax", torch.zeros(()))
        self.calibrating = False

    def forward(self, x):
        if self.calibrating:
            torch.maximum(self.amax, x.abs().amax(), out=self.amax)
        step = self.amax.clamp_min(1e-6) / 127
        q = (x / step).round().clamp_(-127, 127)
        return (q @ self.qweight.t().to(q.dtype)) * step * self.wscale.t()


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(QuantLinear(width, width) for _ in range(depth))

    def calibrate(self, on):
        for layer in self.layers:
            layer.calibrating = on

    def forward(self, x):
        for layer in self.layers:
            x = nn.functional.relu(layer(x))
        return x


class Runner:
    def __init__(self, model, batch, width, device):
        self.model = model
        self.device = device
        self.static_x = torch.empty(batch, width, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.static_y = None

    def _fill(self, sample):
        rows = sample.shape[0]
        self.static_x[:rows].copy_(sample, non_blocking=True)
        if rows < self.static_x.shape[0]:
            self.static_x[rows:].zero_()

    @torch.no_grad()
    def capture(self, samples):
        side = torch.cuda.Stream(self.device)
        self.model.calibrate(True)
        for sample in samples:
            self._fill(sample)
            with torch.cuda.stream(side):
                self.model(self.static_x)
            torch.cuda.current_stream().wait_stream(side)
        self.model.calibrate(False)
        with torch.cuda.graph(self.graph, stream=side):
            self.static_y = self.model(self.static_x)

    @torch.no_grad()
    def __call__(self, x):
        rows = x.shape[0]
        self._fill(x)
        self.graph.replay()
        return self.static_y[:rows].clone()


def serve(requests, samples, batch=256, width=2048, depth=8, device="cuda"):
    model = Stack(width, depth).to(device).eval()
    runner = Runner(model, batch, width, device)
    runner.capture([s.pin_memory() for s in samples])
    answers = []
    for request in requests:
        answers.append(runner(request.pin_memory()).argmax(dim=-1))
    return [a.tolist() for a in answers]


if __name__ == "__main__":
    warm = [torch.randn(256, 2048) for _ in range(4)]
    print(len(serve([torch.randn(32, 2048) for _ in range(16)], warm)))
