"""Sparse-dist pipeline with in-place batch copies: the consumer stream owns every batch tensor."""
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class DeviceBatch:
    dense: torch.Tensor
    ids: torch.Tensor
    label: torch.Tensor

    def tensors(self):
        return (self.dense, self.ids, self.label)


@dataclass
class Staged:
    batch: DeviceBatch
    copied: torch.cuda.Event
    unique: torch.Tensor = None
    inverse: torch.Tensor = None


class InplaceCopyPipeline:
    def __init__(self, model, optimizer, lookahead=3):
        self.model, self.optimizer = model, optimizer
        self.memcpy_stream = torch.cuda.Stream()
        self.dist_stream = torch.cuda.Stream()
        self.lookahead = lookahead
        self.stages = deque()
        self.exhausted = False

    def _stage(self, source):
        host = next(source, None)
        if host is None:
            self.exhausted = True
            return
        target = DeviceBatch(*(torch.empty_like(t, device="cuda") for t in host))
        self.memcpy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.memcpy_stream):
            for dst, src in zip(target.tensors(), host):
                dst.copy_(src, non_blocking=True)
            copied = self.memcpy_stream.record_event()
        self.stages.append(Staged(target, copied))

    def _dist(self, staged):
        main = torch.cuda.current_stream()
        self.dist_stream.wait_event(staged.copied)
        with torch.cuda.stream(self.dist_stream):
            ordered, order = torch.sort(staged.batch.ids)
            staged.unique, staged.inverse = ordered, order
        ordered.record_stream(main)
        order.record_stream(main)

    def _wait_for_batch(self, staged):
        main = torch.cuda.current_stream()
        main.wait_stream(self.memcpy_stream)
        main.wait_stream(self.dist_stream)

    def progress(self, source):
        while not self.exhausted and len(self.stages) < self.lookahead:
            self._stage(source)
            if self.stages and self.stages[-1].unique is None:
                self._dist(self.stages[-1])
        if not self.stages:
            raise StopIteration
        cur = self.stages.popleft()
        self._wait_for_batch(cur)
        loss = self.model(cur.batch.dense, cur.unique, cur.inverse, cur.batch.label)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class SortedLookup(nn.Module):
    def __init__(self, rows, dim, dense):
        super().__init__()
        self.table = nn.Embedding(rows, dim)
        self.bottom = nn.Linear(dense, dim)
        self.top = nn.Linear(2 * dim, 1)

    def forward(self, dense, sorted_ids, order, label):
        emb = torch.empty(sorted_ids.numel(), self.table.embedding_dim, device=dense.device)
        emb = emb.index_copy(0, order, self.table(sorted_ids))
        both = torch.cat([torch.relu(self.bottom(dense)), emb], dim=1)
        return nn.functional.mse_loss(self.top(both).squeeze(1), label)


def host_batches(n, rows, size=16384, dense=64):
    for _ in range(n):
        yield (
            torch.randn(size, dense).pin_memory(),
            torch.randint(rows, (size,)).pin_memory(),
            torch.randn(size).pin_memory(),
        )


def main():
    torch.manual_seed(0)
    model = SortedLookup(300_000, 64, 64).cuda()
    pipe = InplaceCopyPipeline(model, torch.optim.SGD(model.parameters(), lr=0.05))
    source = host_batches(30, 300_000)
    losses = []
    while True:
        try:
            losses.append(pipe.progress(source))
        except StopIteration:
            break
    print(torch.stack(losses)[-3:].tolist())


if __name__ == "__main__":
    main()
