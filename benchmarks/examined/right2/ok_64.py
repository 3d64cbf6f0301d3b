"""Embedding pooling service: Triton kernel, request slots, async results."""
from collections import deque

import torch
import triton
import triton.language as tl


@triton.jit
def pool_rows(table, rows, out, count, DIM: tl.constexpr):
    cols = tl.arange(0, DIM)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for k in range(0, count):
        row = tl.load(rows + k)
        acc += tl.load(table + row * DIM + cols).to(tl.float32)
    tl.store(out + cols, acc / count)


class RequestSlot:
    def __init__(self, max_rows, dim):
        self.rows_host = torch.empty(max_rows, dtype=torch.int64, pin_memory=True)
        self.rows = torch.empty(max_rows, dtype=torch.int64, device="cuda")
        self.out = torch.empty(dim, device="cuda")
        self.out_host = torch.empty(dim, pin_memory=True)
        self.done = torch.cuda.Event()


class PoolingService:
    def __init__(self, table, slots=8, max_rows=256):
        self.table = table
        self.stream = torch.cuda.Stream()
        self.dim = table.shape[1]
        self.free = deque(RequestSlot(max_rows, self.dim) for _ in range(slots))
        self.active = {}
        self.stream.wait_stream(torch.cuda.current_stream())

    def update_rows(self, index, values):
        """Overwrite table rows from the caller's stream."""
        caller = torch.cuda.current_stream()
        caller.wait_stream(self.stream)
        self.table.index_copy_(0, index, values)
        self.stream.wait_stream(caller)

    def submit(self, key, row_ids):
        if not self.free:
            self._collect(next(k for k, (slot, _) in self.active.items() if slot))
        slot = self.free.popleft()
        count = len(row_ids)
        slot.rows_host[:count] = torch.tensor(row_ids)
        with torch.cuda.stream(self.stream):
            slot.rows[:count].copy_(slot.rows_host[:count], non_blocking=True)
            pool_rows[(1,)](self.table, slot.rows, slot.out, count, DIM=self.dim)
            slot.out_host.copy_(slot.out, non_blocking=True)
            slot.done.record()
        self.active[key] = [slot, None]

    def _collect(self, key):
        slot, value = self.active[key]
        if slot is not None:
            slot.done.synchronize()
            value = slot.out_host.clone()
            self.active[key] = [None, value]
            self.free.append(slot)
        return value

    def result(self, key):
        value = self._collect(key)
        del self.active[key]
        return value


def main():
    table = torch.randn(10_000, 128, device="cuda")
    service = PoolingService(table)
    sums = []
    for batch in range(10):
        keys = [(batch, i) for i in range(8)]
        for n, key in enumerate(keys):
            service.submit(key, list(range(n, n + 17)))
        fresh = torch.randn(4, 128, device="cuda")
        sums.extend(service.result(key).sum().item() for key in keys)
        service.update_rows(torch.arange(4, device="cuda"), fresh)
    return sums


if __name__ == "__main__":
    print(main()[:4])
