"""Overlapped scheduling: batches are prepared while the previous one runs."""
from collections import deque

import torch


class ReqToTokenPool:
    def __init__(self, size, max_len):
        self.table = torch.zeros(size, max_len, dtype=torch.int32, device="cuda")
        self.free_rows = list(range(size))

    def alloc(self):
        return self.free_rows.pop()

    def free(self, row):
        self.free_rows.append(row)


class OverlapScheduler:
    def __init__(self, model, pool):
        self.model = model
        self.pool = pool
        self.schedule_stream = torch.cuda.Stream()
        self.forward_stream = torch.cuda.Stream()
        self.results = deque()

    def _prepare(self, step):
        row = self.pool.alloc()
        slots = torch.randint(0, 4096, (self.pool.table.shape[1],), device="cuda", dtype=torch.int32)
        self.pool.table[row].copy_(slots)
        return row

    def _run(self, row):
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            out = self.model(self.pool.table[row])
            host = out.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self.results.append((row, host, done))

    def _finish(self):
        row, host, done = self.results.popleft()
        done.synchronize()
        self.pool.free(row)
        return int(host)

    def event_loop(self, steps):
        tokens = []
        with torch.cuda.stream(self.schedule_stream):
            for step in range(steps):
                self.schedule_stream.wait_stream(self.forward_stream)
                self._run(self._prepare(step))
                if len(self.results) > 1:
                    tokens.append(self._finish())
            while self.results:
                tokens.append(self._finish())
        return tokens


def main():
    kv = torch.randn(4096, 1024, device="cuda")
    head = torch.randn(1024, 32000, device="cuda")
    pool = ReqToTokenPool(2, 2048)
    torch.cuda.synchronize()

    def model(slots):
        return (kv[slots.long()].mean(0) @ head).argmax()

    print(OverlapScheduler(model, pool).event_loop(100)[:5])


if __name__ == "__main__":
    main()
