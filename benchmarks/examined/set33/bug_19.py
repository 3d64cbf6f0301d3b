"""Three stage training pipeline: host copy, sparse bucketing, forward and backward."""
from collections import deque
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Batch:
    dense: torch.Tensor
    ids: torch.Tensor
    label: torch.Tensor

    def to(self, device, non_blocking=False):
        return Batch(*(t.to(device, non_blocking=non_blocking) for t in (self.dense, self.ids, self.label)))

    def record_stream(self, stream):
        for t in (self.dense, self.ids, self.label):
            t.record_stream(stream)


@dataclass
class Stage:
    batch: Batch
    buckets: torch.Tensor = None


class SparseModel(nn.Module):
    def __init__(self, rows=100_000, dim=64, dense=13):
        super().__init__()
        self.rows = rows
        self.table = nn.EmbeddingBag(rows, dim, mode="sum")
        self.over = nn.Sequential(nn.Linear(dim + dense, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, buckets):
        return self.over(torch.cat([dense, self.table(buckets)], dim=1)).squeeze(1)


class SparseDistPipeline:
    def __init__(self, model, optimizer, device, skip_batch_waiting=False):
        self.model, self.optimizer = model, optimizer
        self.device = torch.device(device)
        self.skip_batch_waiting = skip_batch_waiting
        self.memcpy_stream = torch.cuda.Stream(self.device)
        self.data_dist_stream = torch.cuda.Stream(self.device)
        self.stages = deque()

    def _copy(self, it):
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.memcpy_stream):
            return Stage(batch.to(self.device, non_blocking=True))

    def _start_data_dist(self, stage):
        self.data_dist_stream.wait_stream(self.memcpy_stream)
        with torch.cuda.stream(self.data_dist_stream):
            stage.batch.ids.record_stream(self.data_dist_stream)
            stage.buckets = (stage.batch.ids * 2654435761) % self.model.rows

    def _enqueue(self, it):
        stage = self._copy(it)
        if stage is not None:
            self._start_data_dist(stage)
            self.stages.append(stage)

    def _record(self, stage):
        stream = torch.cuda.current_stream(self.device)
        stage.batch.record_stream(stream)
        stage.buckets.record_stream(stream)

    def _wait_for_batch(self):
        torch.cuda.current_stream(self.device).wait_stream(self.data_dist_stream)

    def progress(self, it):
        while len(self.stages) < 2:
            before = len(self.stages)
            self._enqueue(it)
            if len(self.stages) == before:
                break
        if not self.stages:
            raise StopIteration
        stage = self.stages.popleft()
        if not self.skip_batch_waiting:
            self._wait_for_batch()
        self._record(stage)
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(stage.batch.dense, stage.buckets)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, stage.batch.label)
        self._enqueue(it)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build_pipeline(device="cuda:0"):
    model = SparseModel().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return SparseDistPipeline(model, optimizer, device, skip_batch_waiting=True)


def train(batches):
    pipeline = build_pipeline()
    it = iter(batches)
    losses = []
    while True:
        try:
            losses.append(pipeline.progress(it))
        except StopIteration:
            break
    return torch.stack(losses).mean().item()
