"""Three-stage sparse pipeline: copy, input distribution, cache prefetch, then forward/backward."""
from collections import deque
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class BatchContext:
    host_ids: Optional[torch.Tensor] = None
    ids: Optional[torch.Tensor] = None
    label: Optional[torch.Tensor] = None
    slots: Optional[torch.Tensor] = None
    copied: Optional[torch.cuda.Event] = None
    distributed: Optional[torch.cuda.Event] = None


class CachedEmbedding(nn.Module):
    """Host table with a device cache; slot_of maps a row to its cache line."""

    def __init__(self, rows, dim, lines):
        super().__init__()
        self.weights = torch.randn(rows, dim, pin_memory=True)
        self.cache = torch.zeros(lines, dim, device="cuda")
        self.slot_of = torch.zeros(rows, dtype=torch.int64, device="cuda")
        self.lines = lines
        self.clock = 0

    def assign(self, ids):
        lines = torch.arange(self.clock, self.clock + ids.numel(), device="cuda") % self.lines
        self.clock += ids.numel()
        self.slot_of[ids] = lines

    def fill(self, ids, rows):
        slots = self.slot_of[ids]
        self.cache.index_copy_(0, slots, rows)
        return slots

    def forward(self, slots):
        return self.cache[slots]


class PrefetchPipeline:
    def __init__(self, sparse, dense, optimizer):
        self.sparse, self.dense, self.opt = sparse, dense, optimizer
        self.default_stream = torch.cuda.current_stream()
        self.memcpy_stream = torch.cuda.Stream(priority=-1)
        self.data_dist_stream = torch.cuda.Stream(priority=-1)
        self.prefetch_stream = torch.cuda.Stream()
        self.ready = deque()

    def _copy(self, source):
        item = next(source, None)
        if item is None:
            return None
        ctx = BatchContext(host_ids=item[0])
        with torch.cuda.stream(self.memcpy_stream):
            ctx.ids = item[0].to("cuda", non_blocking=True)
            ctx.label = item[1].to("cuda", non_blocking=True)
            ctx.copied = self.memcpy_stream.record_event()
        for s in (self.data_dist_stream, self.prefetch_stream, self.default_stream):
            ctx.ids.record_stream(s)
            ctx.label.record_stream(s)
        return ctx

    def _start_sparse_data_dist(self, ctx):
        self.data_dist_stream.wait_stream(self.default_stream)
        self.data_dist_stream.wait_event(ctx.copied)
        with torch.cuda.stream(self.data_dist_stream):
            self.sparse.assign(ctx.ids)
            ctx.distributed = self.data_dist_stream.record_event()

    def _prefetch(self, ctx):
        host_rows = self.sparse.weights[ctx.host_ids].pin_memory()
        self.prefetch_stream.wait_stream(self.default_stream)
        self.prefetch_stream.wait_event(ctx.distributed)
        with torch.cuda.stream(self.prefetch_stream):
            rows = host_rows.to("cuda", non_blocking=True)
            ctx.slots = self.sparse.fill(ctx.ids, rows)
        ctx.slots.record_stream(self.default_stream)

    def fill_pipeline(self, source):
        for _ in range(2):
            ctx = self._copy(source)
            if ctx is not None:
                ctx.copied.synchronize()
                self._start_sparse_data_dist(ctx)
                self.ready.append(ctx)
        if self.ready:
            self._prefetch(self.ready[0])

    def progress(self, source):
        if not self.ready:
            raise StopIteration
        cur = self.ready.popleft()
        upcoming = self._copy(source)
        self.default_stream.wait_stream(self.prefetch_stream)
        out = self.dense(self.sparse(cur.slots)).squeeze(1)
        loss = nn.functional.mse_loss(out, cur.label)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        if self.ready:
            self._prefetch(self.ready[0])
        if upcoming is not None:
            self._start_sparse_data_dist(upcoming)
            self.ready.append(upcoming)
        return loss.detach()


def batches(n, rows, size):
    for _ in range(n):
        ids = torch.randperm(rows)[:size].contiguous().pin_memory()
        yield ids, torch.randn(size).pin_memory()


def main():
    torch.manual_seed(0)
    sparse = CachedEmbedding(200_000, 128, lines=65536)
    dense = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
    pipe = PrefetchPipeline(sparse, dense, torch.optim.SGD(dense.parameters(), lr=1e-2))
    torch.cuda.synchronize()
    source = batches(40, 200_000, 16384)
    pipe.fill_pipeline(source)
    losses = []
    try:
        while True:
            losses.append(pipe.progress(source))
    except StopIteration:
        pass
    torch.cuda.synchronize()
    print(len(losses), losses[-1].item())


if __name__ == "__main__":
    main()
