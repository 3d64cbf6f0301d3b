from collections import deque
from dataclasses import dataclass
from typing import Deque, Iterator, Optional

import torch
from torch import nn


@dataclass
class TrainPipelineContext:
    batch: "Batch"
    linear_indices: Optional[torch.Tensor] = None
    slots: Optional[torch.Tensor] = None


@dataclass
class Batch:
    values: torch.Tensor
    labels: torch.Tensor

    def to(self, device, non_blocking=True):
        return Batch(
            self.values.to(device, non_blocking=non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )

    def record_stream(self, stream):
        self.values.record_stream(stream)
        self.labels.record_stream(stream)


class UVMCachedEmbedding(nn.Module):
    def __init__(self, num_rows, dim, cache_rows, device):
        super().__init__()
        self.register_buffer("weights", torch.randn(num_rows, dim, device=device))
        self.register_buffer("cache", torch.zeros(cache_rows, dim, device=device))
        self.register_buffer("slot_of_row", torch.full((num_rows,), -1, device=device))
        self.register_buffer("clock", torch.zeros(1, dtype=torch.long, device=device))

    def input_dist(self, values):
        return torch.stack((values, self.slot_of_row[values]))

    def prefetch(self, linear_indices):
        rows, known = linear_indices.unbind(0)
        fresh = (torch.arange(rows.numel(), device=rows.device) + self.clock) % self.cache.size(0)
        slots = torch.where(known >= 0, known, fresh)
        self.cache.index_copy_(0, slots, self.weights[rows])
        self.slot_of_row.index_copy_(0, rows, slots)
        self.clock += rows.numel()
        return slots

    def forward(self, slots):
        return self.cache[slots]


class PrefetchTrainPipelineSparseDist:
    def __init__(self, model, head, optimizer, device):
        self._model, self._head, self._optimizer = model, head, optimizer
        self._device = device
        self._memcpy_stream = torch.cuda.Stream()
        self._data_dist_stream = torch.cuda.Stream()
        self._prefetch_stream = torch.cuda.Stream()
        self._contexts: Deque[TrainPipelineContext] = deque()

    def _copy_batch_to_gpu(self, it: Iterator[Batch]) -> bool:
        batch = next(it, None)
        if batch is None:
            return False
        with torch.cuda.stream(self._memcpy_stream):
            self._contexts.append(TrainPipelineContext(batch.to(self._device)))
        return True

    def start_sparse_data_dist(self, context):
        with torch.cuda.stream(self._data_dist_stream):
            self._data_dist_stream.wait_stream(self._memcpy_stream)
            context.batch.record_stream(self._data_dist_stream)
            context.linear_indices = self._model.input_dist(context.batch.values)

    def _prefetch(self, context):
        curr_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self._prefetch_stream):
            self._prefetch_stream.wait_stream(self._data_dist_stream)
            self._prefetch_stream.wait_stream(curr_stream)
            context.linear_indices.record_stream(self._prefetch_stream)
            context.slots = self._model.prefetch(context.linear_indices)

    def fill_pipeline(self, it):
        if self._copy_batch_to_gpu(it):
            self.start_sparse_data_dist(self._contexts[0])
            self._prefetch(self._contexts[0])
        if self._copy_batch_to_gpu(it):
            self.start_sparse_data_dist(self._contexts[1])

    def progress(self, it):
        if not self._contexts:
            self.fill_pipeline(it)
        if not self._contexts:
            raise StopIteration
        context = self._contexts.popleft()
        curr_stream = torch.cuda.current_stream()
        curr_stream.wait_stream(self._prefetch_stream)
        context.slots.record_stream(curr_stream)
        context.batch.record_stream(curr_stream)

        pooled = self._model(context.slots)
        loss = nn.functional.mse_loss(self._head(pooled).squeeze(-1), context.batch.labels)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()

        if self._contexts:
            self._prefetch(self._contexts[0])
        if self._copy_batch_to_gpu(it):
            self.start_sparse_data_dist(self._contexts[-1])
        return loss.detach()
