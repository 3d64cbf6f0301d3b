"""Embedding-heavy training with three batches in flight: copy, distribute, compute."""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class InFlight:
    dense: torch.Tensor
    ids: torch.Tensor
    label: torch.Tensor
    copied: torch.cuda.Event
    unique: Optional[torch.Tensor] = None
    inverse: Optional[torch.Tensor] = None
    deduped: Optional[torch.cuda.Event] = None

    def tensors(self):
        return [t for t in (self.dense, self.ids, self.label, self.unique, self.inverse) if t is not None]


class ThreeStagePipeline:
    def __init__(self, batches, step_fn):
        self.batches = iter(batches)
        self.step_fn = step_fn
        self.memcpy = torch.cuda.Stream()
        self.dist = torch.cuda.Stream()
        self.queue = []
        self.exhausted = False

    def _copy(self):
        host = None if self.exhausted else next(self.batches, None)
        if host is None:
            self.exhausted = True
            return
        with torch.cuda.stream(self.memcpy):
            dense, ids, label = (t.to("cuda", non_blocking=True) for t in host)
            self.queue.append(InFlight(dense, ids, label, self.memcpy.record_event()))

    def _dedup(self, batch):
        if batch.deduped is not None:
            return
        self.dist.wait_event(batch.copied)
        with torch.cuda.stream(self.dist):
            batch.unique, batch.inverse = torch.unique(batch.ids, return_inverse=True)
            batch.ids.record_stream(self.dist)
            batch.deduped = self.dist.record_event()

    def _join(self, batch):
        stream = torch.cuda.current_stream()
        stream.wait_event(batch.deduped)
        for t in batch.tensors():
            t.record_stream(stream)
        return batch

    def run(self):
        for _ in range(2):
            self._copy()
        while self.queue:
            for batch in self.queue[:2]:
                self._dedup(batch)
            current = self._join(self.queue.pop(0))
            self._copy()
            yield self.step_fn(current)


class Ranker(nn.Module):
    def __init__(self, rows=200_000, dim=64):
        super().__init__()
        self.table = nn.Embedding(rows, dim, sparse=True)
        self.top = nn.Sequential(nn.Linear(13 + 26 * dim, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, batch):
        rows = self.table(batch.unique)[batch.inverse]
        return self.top(torch.cat([batch.dense, rows.flatten(1)], dim=1)).squeeze(1)


def host_batches(n):
    for _ in range(n):
        yield (
            torch.randn(512, 13).pin_memory(),
            torch.randint(0, 200_000, (512, 26)).pin_memory(),
            torch.randint(0, 2, (512,)).float().pin_memory(),
        )


def main():
    model = Ranker().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch):
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch.label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    losses = list(ThreeStagePipeline(host_batches(200), step).run())
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
