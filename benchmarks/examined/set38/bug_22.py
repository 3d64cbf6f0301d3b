"""A small recommender training loop with the input permutation off the main stream."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class SparseBatch:
    values: torch.Tensor
    weights: torch.Tensor
    dense: torch.Tensor
    label: torch.Tensor


def make_batch(rows, pooled, n_ids, device):
    return SparseBatch(
        values=torch.randint(0, n_ids, (rows, pooled), device=device),
        weights=torch.rand(rows, pooled, device=device),
        dense=torch.randn(rows, pooled, device=device),
        label=torch.randint(0, 2, (rows,), device=device).float(),
    )


class FrequencyTracker:
    """Keeps decayed per-slot statistics of the input weights."""

    def __init__(self, rows, pooled, device):
        self.state = torch.zeros(rows, pooled, device=device)
        self.decay = 0.99
        self.stream = torch.cuda.Stream(device)

    def observe(self, weights):
        scaled = torch.softmax(weights, dim=1)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.state.mul_(self.decay)
            self.state.addcmul_(scaled, scaled, value=1.0 - self.decay)

    def read(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.state.mean(dim=1)


class Ranker(nn.Module):
    def __init__(self, n_ids, dim, pooled):
        super().__init__()
        self.table = nn.EmbeddingBag(n_ids, dim, mode="sum")
        self.dense = nn.Linear(pooled, dim)
        self.top = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, batch, dense_in):
        sparse = self.table(batch.values, per_sample_weights=batch.weights)
        dense = self.dense(dense_in)
        return self.top(torch.cat([sparse, dense], dim=1)).squeeze(1)


class TrainLoop:
    def __init__(self, model, tracker, lr=1e-2):
        self.model = model
        self.tracker = tracker
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.loss_fn = nn.BCEWithLogitsLoss()

    def step(self, batch):
        self.tracker.observe(batch.weights)
        dense_in = torch.tanh(batch.dense)
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(batch, dense_in), batch.label)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    device = torch.device("cuda", 0)
    rows, pooled, n_ids = 16384, 64, 1_000_000
    model = Ranker(n_ids, 64, pooled).to(device)
    tracker = FrequencyTracker(rows, pooled, device)
    loop = TrainLoop(model, tracker)
    for it in range(200):
        loss = loop.step(make_batch(rows, pooled, n_ids, device))
        if it % 50 == 49:
            heavy = tracker.read().topk(8).indices.tolist()
            print(it, float(loss), heavy)


if __name__ == "__main__":
    main()
