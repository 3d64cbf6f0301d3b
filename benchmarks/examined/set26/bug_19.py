import numpy as np
import torch


class RunningHistogram:
    """Host-side histogram that grows with the observed range."""

    def __init__(self, bins):
        self.bins = bins
        self.counts = np.zeros(bins)
        self.low = None
        self.high = None

    def merge(self, counts, low, high):
        if self.low is None:
            self.counts, self.low, self.high = counts.copy(), low, high
            return
        new_low, new_high = min(self.low, low), max(self.high, high)
        edges = np.linspace(new_low, new_high, self.bins + 1)
        old = np.linspace(self.low, self.high, self.bins)
        cur = np.linspace(low, high, self.bins)
        self.counts = (np.histogram(old, edges, weights=self.counts)[0]
                       + np.histogram(cur, edges, weights=counts)[0])
        self.low, self.high = new_low, new_high


class EncodingAnalyzer:
    def __init__(self, bins=512, bitwidth=8, percentile=99.99):
        self.bins = bins
        self.bitwidth = bitwidth
        self.percentile = percentile
        self.histogram = RunningHistogram(bins)
        self.range_host = torch.zeros(2, pin_memory=True)
        self.counts_host = torch.zeros(bins, pin_memory=True)

    @torch.no_grad()
    def update_stats(self, x):
        x = x.detach().float()
        value_range = torch.stack((x.amin(), x.amax()))
        scaled = (x - value_range[0]) / (value_range[1] - value_range[0]).clamp_min(1e-8)
        counts = torch.histc(scaled, self.bins, 0.0, 1.0)
        self.range_host.copy_(value_range, non_blocking=True)
        self.counts_host.copy_(counts, non_blocking=True)
        low, high = self.range_host.tolist()
        self.histogram.merge(self.counts_host.numpy(), low, high)

    def compute_encoding(self):
        cdf = np.cumsum(self.histogram.counts) / self.histogram.counts.sum()
        tail = (1 - self.percentile / 100) / 2
        edges = np.linspace(self.histogram.low, self.histogram.high, self.bins)
        low = min(edges[np.searchsorted(cdf, tail)], 0.0)
        high = max(edges[min(np.searchsorted(cdf, 1 - tail), self.bins - 1)], 0.0)
        scale = (high - low) / (2 ** self.bitwidth - 1)
        return scale, round(-low / scale)


class QuantizationSimModel:
    def __init__(self, model):
        self.model = model.cuda().eval()
        self.analyzers = {}
        for name, module in self.model.named_modules():
            if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
                self.analyzers[name] = EncodingAnalyzer()
                module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def observe(module, inputs, output):
            self.analyzers[name].update_stats(output)
        return observe

    def compute_encodings(self, loader):
        with torch.inference_mode():
            for x in loader:
                self.model(x.cuda(non_blocking=True))
        return {n: a.compute_encoding() for n, a in self.analyzers.items()}
