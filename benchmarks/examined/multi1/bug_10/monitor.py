import torch


class RangeMonitor:
    """Running extremes of the inputs, kept on the device."""

    def __init__(self, every=1, device="cuda"):
        self.every = every
        self.seen = 0
        self.low = torch.full((), float("inf"), device=device)
        self.high = torch.full((), float("-inf"), device=device)

    def wants(self, index):
        return index % self.every == 0

    def observe(self, batch):
        low, high = torch.aminmax(batch)
        self.low = torch.minimum(self.low, low)
        self.high = torch.maximum(self.high, high)
        self.seen += 1

    def report(self):
        return {
            "seen": self.seen,
            "low": self.low.item(),
            "high": self.high.item(),
        }
