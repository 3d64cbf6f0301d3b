"""Asynchronous retrieval of cache-populate actions for an SSD embedding table."""
import torch


class PopulateActions:
    def __init__(self, count, inserted, evicted, done):
        self.count, self.inserted, self.evicted = count, inserted, evicted
        self.done = done

    def resolve(self):
        self.done.synchronize()
        n = int(self.count[0])
        return self.inserted[:n].tolist(), self.evicted[:n].tolist()


class SsdCache:
    def __init__(self, n_slots, dim, backing):
        self.device = torch.device("cuda")
        self.tags = torch.full((n_slots,), -1, dtype=torch.int64, device=self.device)
        self.rows = torch.zeros(n_slots, dim, device=self.device)
        self.backing = backing
        self.memcpy_stream = torch.cuda.Stream(self.device)

    def _to_cpu(self, t):
        out = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        out.copy_(t, non_blocking=True)
        t.record_stream(self.memcpy_stream)
        return out

    def prefetch(self, ids):
        slots = ids % self.tags.numel()
        uniq, inverse = torch.unique(slots, return_inverse=True)
        wanted = torch.zeros_like(uniq).scatter_(0, inverse, ids)
        miss = self.tags[uniq] != wanted
        count = miss.sum().view(1)
        order = torch.argsort(miss.to(torch.int8), descending=True)
        inserted, evicted = wanted[order], uniq[order]
        self.tags[uniq] = wanted
        self.memcpy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.memcpy_stream):
            parts = [self._to_cpu(t) for t in (count, inserted, evicted)]
            done = torch.cuda.Event()
            done.record()
        return PopulateActions(*parts, done)

    def fill(self, actions):
        inserted, slots = actions.resolve()
        if not inserted:
            return
        fresh = torch.stack([self.backing[i] for i in inserted]).to(self.device)
        self.rows[torch.tensor(slots, device=self.device)] = fresh

    def lookup(self, ids):
        return self.rows[ids % self.tags.numel()]


def main():
    backing = torch.randn(10000, 64)
    cache = SsdCache(4096, 64, backing)
    for _ in range(8):
        ids = torch.randint(0, 4096, (512,), device="cuda")
        actions = cache.prefetch(ids)
        cache.fill(actions)
        print(cache.lookup(ids).sum().item())


if __name__ == "__main__":
    main()
