"""Overlap scheduling: batch preparation on the schedule stream, model on the forward stream."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class Req:
    rid: int
    prompt: list
    max_new: int
    pool_idx: int = -1
    generated: list = field(default_factory=list)

    @property
    def finished(self):
        return len(self.generated) >= self.max_new


class ReqToTokenPool:
    """Row r holds the KV slots of the request that owns r."""

    def __init__(self, rows, max_len, device):
        self.table = torch.zeros(rows, max_len, dtype=torch.int64, device=device)
        self.free_rows = deque(range(rows))

    def alloc(self):
        return self.free_rows.popleft() if self.free_rows else None

    def free(self, row):
        self.free_rows.appendleft(row)

    def write(self, row, slots):
        self.table[row, : slots.numel()] = slots


class Worker:
    """Draft-extend style forward: gathers whole rows of the table."""

    def __init__(self, pool, slots=1 << 18, dim=512, vocab=32000, device="cuda"):
        self.pool = pool
        self.kv = torch.randn(slots, dim, device=device)
        self.head = torch.randn(dim, vocab, device=device) * 0.02

    def forward(self, rows, lens):
        slots = self.pool.table[rows]
        hidden = self.kv[slots]
        pos = torch.arange(slots.shape[1], device=slots.device)
        mask = (pos[None, :] < lens[:, None]).unsqueeze(-1)
        pooled = (hidden * mask).sum(1) / lens.unsqueeze(-1)
        for _ in range(6):
            pooled = torch.tanh(pooled)
        last = slots.gather(1, (lens - 1).unsqueeze(1)).squeeze(1)
        self.kv.index_copy_(0, last, pooled)
        return (pooled @ self.head).argmax(-1)


class Scheduler:
    def __init__(self, max_running=32, max_len=2048, device="cuda"):
        self.device = device
        self.pool = ReqToTokenPool(max_running, max_len, device)
        self.worker = Worker(self.pool, device=device)
        self.forward_stream = torch.cuda.Stream()
        self.waiting = deque()
        self.running = []
        self.next_slot = 0

    def _admit(self):
        while self.waiting:
            row = self.pool.alloc()
            if row is None:
                return
            req = self.waiting.popleft()
            req.pool_idx = row
            n = len(req.prompt) + req.max_new
            start = self.next_slot
            self.next_slot = (start + n) % (1 << 17)
            self.pool.write(row, torch.arange(start, start + n, device=self.device))
            self.running.append(req)

    def _launch(self):
        batch = list(self.running)
        rows = torch.tensor([r.pool_idx for r in batch]).pin_memory()
        lens = torch.tensor([len(r.prompt) + len(r.generated) for r in batch]).pin_memory()
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            dev_rows = rows.to(self.device, non_blocking=True)
            dev_lens = lens.to(self.device, non_blocking=True)
            tokens = self.worker.forward(dev_rows, dev_lens)
            host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
            host.copy_(tokens, non_blocking=True)
            done = self.forward_stream.record_event()
        return batch, host, done

    def _process(self, result):
        batch, host, done = result
        done.synchronize()
        for req, token in zip(batch, host.tolist()):
            if req.finished:
                continue
            req.generated.append(token)
            if req.finished:
                self.running.remove(req)
                self.pool.free(req.pool_idx)

    @torch.inference_mode()
    def run(self, requests):
        self.waiting.extend(requests)
        pending = None
        while self.waiting or self.running or pending:
            self._admit()
            current = self._launch() if self.running else None
            if pending:
                self._process(pending)
            pending = current
