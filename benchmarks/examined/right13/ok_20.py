"""Embedding rows cached on the device, with misses fetched from a pinned table."""
from collections import OrderedDict

import torch


class CachedEmbedding:
    def __init__(self, table, capacity, max_misses, device="cuda"):
        self.table = table.contiguous()
        self.device = torch.device(device)
        self.capacity = capacity
        dim = table.shape[1]
        self.stream = torch.cuda.Stream(self.device)
        self.cache = torch.zeros(capacity, dim, dtype=table.dtype, device=self.device)
        self.cache.record_stream(self.stream)
        self.rows_host = torch.empty(max_misses, dim, dtype=table.dtype, pin_memory=True)
        self.slots_host = torch.empty(max_misses, dtype=torch.int64, pin_memory=True)
        self.sent = torch.cuda.Event()
        self.where = OrderedDict()
        self.free = list(range(capacity))
        self.hits = self.misses = 0

    def _reserve(self, wanted):
        missing = []
        for row in wanted:
            if row in self.where:
                self.where.move_to_end(row)
                self.hits += 1
            else:
                missing.append(row)
        if len(missing) > self.rows_host.shape[0] or len(wanted) > self.capacity:
            raise ValueError("batch does not fit the cache")
        placed = []
        for row in missing:
            if not self.free:
                _, slot = self.where.popitem(last=False)
                self.free.append(slot)
            self.where[row] = self.free.pop()
            placed.append(self.where[row])
        self.misses += len(missing)
        return missing, placed

    def _fill(self, missing, placed):
        n = len(missing)
        self.sent.synchronize()
        torch.index_select(self.table, 0, torch.tensor(missing), out=self.rows_host[:n])
        self.slots_host[:n] = torch.tensor(placed)
        compute = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            rows = self.rows_host[:n].to(self.device, non_blocking=True)
            slots = self.slots_host[:n].to(self.device, non_blocking=True)
            self.sent.record()
            self.cache.index_copy_(0, slots, rows)
        compute.wait_stream(self.stream)

    def lookup(self, ids):
        flat = ids.reshape(-1).tolist()
        missing, placed = self._reserve(list(dict.fromkeys(flat)))
        if missing:
            self._fill(missing, placed)
        index = torch.tensor([self.where[r] for r in flat], device=self.device)
        return self.cache[index].view(*ids.shape, -1)


def pooled(cache, id_batches):
    out = []
    for ids in id_batches:
        out.append(cache.lookup(ids).mean(dim=1))
    return torch.cat(out).cpu() if out else None


def main():
    cache = CachedEmbedding(torch.randn(100_000, 64), capacity=4096, max_misses=2048)
    batches = [torch.randint(0, 20_000, (32, 40)) for _ in range(50)]
    print(pooled(cache, batches).shape, cache.hits, cache.misses)


if __name__ == "__main__":
    main()
