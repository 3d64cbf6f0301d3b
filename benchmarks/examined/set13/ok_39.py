import numpy as np
import torch


class TickBatcher:
    """Collects market ticks and uploads them in fixed size batches."""

    FIELDS = ("bid", "ask", "bid_size", "ask_size")

    def __init__(self, batch_size, device="cuda"):
        self.batch_size = batch_size
        self.device = torch.device(device)
        self.staging = np.empty((batch_size, len(self.FIELDS)), dtype=np.float32)
        self.fill = 0

    def push(self, tick):
        self.staging[self.fill] = [tick[f] for f in self.FIELDS]
        self.fill += 1
        return self.fill == self.batch_size

    def flush(self):
        n, self.fill = self.fill, 0
        out = torch.empty(n, len(self.FIELDS), device=self.device)
        out.copy_(torch.from_numpy(self.staging[:n]), non_blocking=True)
        return out


class EwmaSpread:
    def __init__(self, halflife, device="cuda"):
        self.alpha = 1.0 - 0.5 ** (1.0 / halflife)
        self.value = torch.zeros((), device=device)
        self.started = False

    def update(self, ticks):
        mid = 0.5 * (ticks[:, 0] + ticks[:, 1])
        spread = (ticks[:, 1] - ticks[:, 0]) / mid
        n = spread.numel()
        weights = (1.0 - self.alpha) ** torch.arange(n - 1, -1, -1, device=spread.device)
        weighted = self.alpha * (weights * spread).sum()
        if not self.started:
            self.value.copy_(spread[0])
            self.started = True
        self.value.mul_((1.0 - self.alpha) ** n).add_(weighted)


class Imbalance:
    def __init__(self, levels, device="cuda"):
        self.history = torch.zeros(levels, device=device)
        self.pos = 0

    def update(self, ticks):
        bid, ask = ticks[:, 2].sum(), ticks[:, 3].sum()
        self.history[self.pos % self.history.numel()] = (bid - ask) / (bid + ask + 1e-6)
        self.pos += 1


@torch.no_grad()
def run(feed, batch_size=4096, report_every=64):
    batcher = TickBatcher(batch_size)
    spread, imbalance = EwmaSpread(2000), Imbalance(256)
    batches = 0
    for tick in feed:
        if batcher.push(tick):
            ticks = batcher.flush()
            spread.update(ticks)
            imbalance.update(ticks)
            batches += 1
            if batches % report_every == 0:
                yield spread.value.item(), imbalance.history.mean().item()
