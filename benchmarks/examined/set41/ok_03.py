"""Overlap scheduler with a shared request-to-token table."""
from collections import deque

import torch


class ReqTable:
    def __init__(self, rows, cols):
        self.tokens = torch.zeros(rows, cols, dtype=torch.int64, device="cuda")
        self.free_rows = list(range(rows))

    def take(self):
        return self.free_rows.pop(0)

    def give_back(self, row):
        self.free_rows.insert(0, row)

    def assign(self, row, start, count):
        self.tokens[row, start: start + count] = torch.arange(
            start, start + count, device="cuda"
        )


class Req:
    def __init__(self, rid, length, budget):
        self.rid, self.length, self.budget = rid, length, budget
        self.row = None
        self.out = []


class OverlapScheduler:
    def __init__(self, requests, rows=8, cols=512, width=256):
        self.queue = deque(requests)
        self.table = ReqTable(rows, cols)
        self.schedule_stream = torch.cuda.Stream()
        self.forward_stream = torch.cuda.Stream()
        self.kv = torch.randn(cols, width, device="cuda")
        self.head = torch.randn(width, 1000, device="cuda")
        self.active = []
        self.schedule_stream.wait_stream(torch.cuda.current_stream())

    def _admit(self):
        while self.queue and self.table.free_rows:
            req = self.queue.popleft()
            req.row = self.table.take()
            self.table.assign(req.row, 0, req.length)
            self.active.append(req)

    def next_batch(self):
        self._admit()
        batch = [r for r in self.active if r.budget > 0]
        for r in batch:
            self.table.assign(r.row, r.length, 1)
            r.length += 1
            r.budget -= 1
        return batch

    def run_batch(self, batch):
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            logits = []
            for r in batch:
                idx = self.table.tokens[r.row, : r.length]
                logits.append(self.kv[idx].mean(0) @ self.head)
            ids = torch.stack(logits).argmax(-1)
            host = ids.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return batch, host, done

    def process(self, result):
        batch, host, done = result
        done.synchronize()
        for r, tok in zip(batch, host.tolist()):
            r.out.append(tok)
            if r.budget == 0 and r in self.active:
                self.active.remove(r)
                self.table.give_back(r.row)

    def loop(self):
        last = None
        with torch.cuda.stream(self.schedule_stream):
            while True:
                self.schedule_stream.wait_stream(self.forward_stream)
                batch = self.next_batch()
                current = self.run_batch(batch) if batch else None
                if last is not None:
                    self.process(last)
                last = current
                if current is None and not self.queue and not self.active:
                    break


if __name__ == "__main__":
    reqs = [Req(i, 16 + i, 5 + i % 4) for i in range(24)]
    OverlapScheduler(reqs).loop()
    print([len(r.out) for r in reqs])
