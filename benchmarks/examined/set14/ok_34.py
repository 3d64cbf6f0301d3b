import numpy as np
import torch
from torch import nn


def to_device(array, device, dtype=None):
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if dtype is not None:
        tensor = tensor.to(dtype)
    return tensor.pin_memory().to(device, non_blocking=True)


class OrderBookFeatures:
    """Turns snapshots of an order book into model inputs."""

    def __init__(self, levels, window):
        self.levels = levels
        self.window = window
        self.history = []

    def push(self, bids, asks):
        mid = 0.5 * (bids[0, 0] + asks[0, 0])
        row = np.concatenate(
            (
                bids[: self.levels, 0] / mid - 1.0,
                asks[: self.levels, 0] / mid - 1.0,
                np.log1p(bids[: self.levels, 1]),
                np.log1p(asks[: self.levels, 1]),
            )
        )
        self.history.append(row.astype(np.float32))
        if len(self.history) > self.window:
            self.history.pop(0)
        return len(self.history) == self.window

    def matrix(self):
        return np.stack(self.history)


class Forecaster(nn.Module):
    def __init__(self, features, hidden=128):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1]).softmax(-1)


@torch.inference_mode()
def replay(snapshots, model, symbols, levels=10, window=100, device="cuda"):
    model = model.to(device).eval()
    books = {s: OrderBookFeatures(levels, window) for s in symbols}
    forecasts = []
    for tick in snapshots:
        ready = [s for s, (bids, asks) in tick.items() if books[s].push(bids, asks)]
        if not ready:
            continue
        batch = to_device(np.stack([books[s].matrix() for s in ready]), device)
        forecasts.append((ready, model(batch)))
    return [(ready, probabilities.cpu().numpy()) for ready, probabilities in forecasts]
