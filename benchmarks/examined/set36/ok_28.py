"""Layer-wise statistics on a side stream during inference."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class LayerStats:
    name: str
    summary: torch.Tensor


class StatsCollector:
    """Computes histograms of activations beside the next layer."""

    def __init__(self, bins=64):
        self.stream = torch.cuda.Stream()
        self.bins = bins
        self.collected = []
        self._open = None

    def begin(self, name, activation):
        self.end()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            flat = activation.reshape(-1).float()
            low, high = torch.aminmax(flat)
            width = (high - low).clamp_min(1e-6) / self.bins
            index = ((flat - low) / width).long().clamp_(0, self.bins - 1)
            histogram = torch.zeros(self.bins, device=flat.device).scatter_add_(
                0, index, torch.ones_like(flat)
            )
            summary = torch.cat([low.reshape(1), high.reshape(1), histogram])
        self._open = (name, activation, summary)

    def end(self):
        if self._open is None:
            return
        torch.cuda.current_stream().wait_stream(self.stream)
        name, _, summary = self._open
        self.collected.append(LayerStats(name, summary.clone()))
        self._open = None

    def drain(self):
        self.end()
        stats, self.collected = self.collected, []
        return {s.name: s.summary.cpu() for s in stats}


class ProfiledModel(nn.Module):
    def __init__(self, dim=2048, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)
        )
        self.collector = StatsCollector()

    @torch.no_grad()
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            self.collector.begin(f"layer{i}", x)
        self.collector.end()
        return x


class Calibrator:
    def __init__(self):
        self.model = ProfiledModel().cuda().eval()
        self.ranges = {}

    def feed(self, batch):
        self.model(batch.cuda(non_blocking=True))
        for name, summary in self.model.collector.drain().items():
            low, high = self.ranges.get(name, (0.0, 0.0))
            self.ranges[name] = (min(low, float(summary[0])), max(high, float(summary[1])))


def main():
    calibrator = Calibrator()
    for _ in range(32):
        calibrator.feed(torch.randn(1024, 2048).pin_memory())
    print(list(calibrator.ranges.items())[:2])


if __name__ == "__main__":
    main()
