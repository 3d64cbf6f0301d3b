"""Pooling worker: runs the encoder and hands results to the engine loop lazily."""
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class PoolRequest:
    request_id: str
    token_ids: list


class PoolingHead(nn.Module):
    def __init__(self, vocab=32000, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, tokens, mask):
        h = self.proj(self.embed(tokens))
        h = h * mask.unsqueeze(-1)
        pooled = h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return nn.functional.normalize(pooled, dim=-1)


class DeferredPoolerOutput:
    """Result whose host side is materialised when the engine asks for it."""

    def __init__(self, request_ids, pooled, finite, copy_stream):
        self.request_ids = request_ids
        self._pooled = pooled
        self._finite = finite
        self._ready = torch.cuda.Event()
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(compute)
            self.pooled_cpu = pooled.to("cpu", non_blocking=True)
            self.finite_cpu = finite.to("cpu", non_blocking=True)
            self._ready.record(copy_stream)

    def result(self):
        rows = [np.array(row.numpy()) for row in self.pooled_cpu.unbind(0)]
        self._ready.synchronize()
        self._pooled = None
        keep = self.finite_cpu.tolist()
        return {
            rid: row if ok else None
            for rid, row, ok in zip(self.request_ids, rows, keep)
        }


class PoolingWorker:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.model = PoolingHead().to(self.device).eval()
        self.copy_stream = torch.cuda.Stream(self.device)

    @torch.inference_mode()
    def execute(self, batch):
        longest = max(len(r.token_ids) for r in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros(len(batch), longest)
        for i, r in enumerate(batch):
            tokens[i, : len(r.token_ids)] = torch.tensor(r.token_ids)
            mask[i, : len(r.token_ids)] = 1
        pooled = self.model(tokens.to(self.device), mask.to(self.device))
        finite = torch.isfinite(pooled).all(dim=-1)
        ids = [r.request_id for r in batch]
        return DeferredPoolerOutput(ids, pooled, finite, self.copy_stream)


def engine_loop(worker, batches, depth=2):
    pending = deque()
    for batch in batches:
        pending.append(worker.execute(batch))
        if len(pending) >= depth:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    work = [
        [PoolRequest(f"{b}-{i}", rng.integers(0, 32000, 64).tolist()) for i in range(8)]
        for b in range(6)
    ]
    for out in engine_loop(PoolingWorker(), work):
        print(sorted(out))
