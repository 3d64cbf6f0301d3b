"""Overlapped scheduler whose table is snapshotted by the forward worker."""
from collections import deque
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn


@dataclass
class Batch:
    rows: torch.Tensor
    tokens: torch.Tensor
    context_len: int


class TokenTable:
    def __init__(self, rows: int, width: int, device):
        self.data = torch.zeros((rows, width), dtype=torch.int64, device=device)

    def append(self, rows, col: int, slots):
        self.data[rows, col] = slots


class ForwardWorker:
    def __init__(self, model: nn.Module, table: TokenTable, kv: torch.Tensor):
        self.model = model
        self.table = table
        self.kv = kv
        self.forward_stream = torch.cuda.Stream()
        self.table_read_done: Optional[torch.cuda.Event] = None

    def _build_metadata(self, batch: Batch):
        pages = self.table.data.index_select(0, batch.rows)[:, : batch.context_len].contiguous()
        ev = torch.cuda.Event()
        ev.record()
        self.table_read_done = ev
        return pages

    @torch.inference_mode()
    def run(self, batch: Batch, schedule_stream, out: torch.Tensor):
        self.forward_stream.wait_stream(schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            pages = self._build_metadata(batch)
            context = self.kv[pages].mean(dim=1)
            ids = self.model(batch.tokens, context).argmax(dim=-1)
            batch.tokens.copy_(ids)
            out.copy_(ids, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return done


class Scheduler:
    def __init__(self, worker: ForwardWorker, table: TokenTable, bs: int):
        self.worker = worker
        self.table = table
        self.stream = torch.cuda.current_stream()
        self.host = [torch.empty(bs, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.next_slot = 0

    def _fence(self):
        ev = self.worker.table_read_done
        if ev is not None:
            self.stream.wait_event(ev)

    def prepare(self, batch: Batch):
        self._fence()
        n = batch.rows.numel()
        slots = torch.arange(self.next_slot, self.next_slot + n, device=batch.rows.device)
        self.next_slot = (self.next_slot + n) % (self.worker.kv.shape[0] - n)
        self.table.append(batch.rows, batch.context_len, slots)
        batch.context_len += 1

    def loop(self, batch: Batch, steps: int):
        pending: deque = deque()
        history = []
        for i in range(steps):
            self.prepare(batch)
            out = self.host[i % 2]
            pending.append((self.worker.run(batch, self.stream, out), out))
            if len(pending) == 2:
                done, tokens = pending.popleft()
                done.synchronize()
                history.append(tokens.tolist())
        for done, tokens in pending:
            done.synchronize()
            history.append(tokens.tolist())
        return history


class Head(nn.Module):
    def __init__(self, vocab=2048, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.ModuleList(nn.Linear(dim, dim) for _ in range(8))
        self.out = nn.Linear(dim, vocab)

    def forward(self, tokens, context):
        x = self.embed(tokens) + context
        for m in self.mix:
            x = torch.tanh(m(x))
        return self.out(x)


def main(bs: int = 32, steps: int = 64):
    device = "cuda"
    table = TokenTable(bs, 256, device)
    kv = torch.randn(8192, 512, device=device)
    worker = ForwardWorker(Head().to(device).eval(), table, kv)
    batch = Batch(
        rows=torch.arange(bs, device=device),
        tokens=torch.randint(0, 2048, (bs,), device=device),
        context_len=4,
    )
    history = Scheduler(worker, table, bs).loop(batch, steps)
    print(len(history))


if __name__ == "__main__":
    main()
