import torch


class RunningStats:
    """Sum, square sum and a coarse histogram of everything shown to it."""

    def __init__(self, bins=256, span=8.0, device="cuda"):
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        self.square = torch.zeros((), dtype=torch.float64, device=device)
        self.hist = torch.zeros(bins, device=device)
        self.bins = bins
        self.span = span
        self.seen = 0

    def add(self, t):
        f = t.float()
        self.total += f.double().sum()
        self.square += f.double().pow(2).sum()
        self.hist += torch.histc(f, self.bins, -self.span, self.span)
        self.seen += t.numel()

    def summary(self):
        mean = self.total.item() / max(self.seen, 1)
        var = self.square.item() / max(self.seen, 1) - mean * mean
        return mean, max(var, 0.0) ** 0.5, int(self.hist.argmax())

    def reset(self):
        self.total.zero_()
        self.square.zero_()
        self.hist.zero_()
        self.seen = 0


def scale_for(mean, std, bits=8, sigmas=4.0):
    """Symmetric quantization step that covers `sigmas` deviations."""
    bound = abs(mean) + sigmas * std
    return bound / (2 ** (bits - 1) - 1)
