from typing import Callable, Dict, List

import torch
import torch.nn as nn


class HistogramTap:
    """Accumulates activation histograms and hands them to a sink now and then."""

    def __init__(self, name: str, bins: int, low: float, high: float, device, sink):
        self.name = name
        self.bins, self.low, self.high = bins, low, high
        self.counts = torch.zeros(bins, device=device)
        self.extrema = torch.tensor([float("inf"), float("-inf")], device=device)
        self.stream = torch.cuda.Stream(device)
        self.sink = sink

    @torch.no_grad()
    def __call__(self, module: nn.Module, args, output: torch.Tensor) -> None:
        flat = output.detach().float().reshape(-1)
        self.counts += torch.histc(flat, self.bins, self.low, self.high)
        self.extrema[0] = torch.minimum(self.extrema[0], flat.min())
        self.extrema[1] = torch.maximum(self.extrema[1], flat.max())

    @torch.no_grad()
    def flush(self) -> None:
        current = torch.cuda.current_stream(self.counts.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            total = self.counts.sum().clamp_min(1.0)
            density = (self.counts / total).cpu()
            extrema = self.extrema.cpu()
        self.counts.zero_()
        self.extrema[0] = float("inf")
        self.extrema[1] = float("-inf")
        self.sink(self.name, density.tolist(), extrema.tolist())


class ActivationRecorder:
    def __init__(self, model: nn.Module, sink: Callable, every: int = 100, bins: int = 128):
        self.every = every
        self.step_count = 0
        self.taps: List[HistogramTap] = []
        self.handles = []
        device = next(model.parameters()).device
        for name, module in model.named_modules():
            if isinstance(module, (nn.ReLU, nn.GELU)):
                tap = HistogramTap(name, bins, -8.0, 8.0, device, sink)
                self.taps.append(tap)
                self.handles.append(module.register_forward_hook(tap))

    def step(self) -> None:
        self.step_count += 1
        if self.step_count % self.every == 0:
            for tap in self.taps:
                tap.flush()

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def train(model, batches, optimizer, criterion) -> Dict[str, list]:
    store: Dict[str, list] = {}
    recorder = ActivationRecorder(
        model, lambda name, density, ext: store.setdefault(name, []).append((density, ext))
    )
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(x), y).backward()
        optimizer.step()
        recorder.step()
    recorder.close()
    return store
