"""Embedding cache whose evicted rows are written back by a low-priority stream."""
import torch


class EvictionBuffers:
    def __init__(self, rows, dim, device):
        self.weights = torch.zeros(rows, dim, device=device)
        self.slots = torch.zeros(rows, dtype=torch.long, device=device)
        self.drained = torch.cuda.Event()


class BackingStore:
    def __init__(self, rows, dim):
        self.table = torch.randn(rows, dim, pin_memory=True)

    def rows(self, idx):
        return self.table[idx]


class CachedEmbedding:
    def __init__(self, store_rows=1 << 16, cache_rows=1 << 12, dim=128, batch=1024):
        self.device = torch.device("cuda")
        self.batch, self.dim = batch, dim
        self.cache = torch.zeros(cache_rows, dim, device=self.device)
        self.spilled = torch.zeros(store_rows, dim, device=self.device)
        self.buffers = [EvictionBuffers(batch, dim, self.device) for _ in range(2)]
        self.turn = 0
        low, _ = torch.cuda.Stream.priority_range()
        self.evict_stream = torch.cuda.Stream(self.device, priority=low)
        self.step_no = 0

    def _pick_victims(self):
        base = (self.step_no * self.batch) % self.cache.shape[0]
        return torch.arange(base, base + self.batch, device=self.device)

    def prefetch(self, indices, fresh):
        buf = self.buffers[self.turn]
        main = torch.cuda.current_stream()
        main.wait_event(buf.drained)
        victims = self._pick_victims()
        torch.index_select(self.cache, 0, victims, out=buf.weights)
        buf.slots.copy_(indices)
        self.cache.index_copy_(0, victims, fresh)
        self._write_back(buf, main)
        self.turn = 1 - self.turn
        self.step_no += 1
        return victims

    def _write_back(self, buf, main):
        self.evict_stream.wait_stream(main)
        with torch.cuda.stream(self.evict_stream):
            self.spilled.index_add_(0, buf.slots, buf.weights)
            buf.drained.record()

    def lookup(self, slots):
        return self.cache[slots]

    def flush(self):
        torch.cuda.current_stream().wait_stream(self.evict_stream)
        return self.spilled.norm()


class Trainer:
    def __init__(self):
        self.emb = CachedEmbedding()
        self.top = torch.randn(self.emb.dim, 1, device="cuda")

    def step(self):
        e = self.emb
        idx = torch.randint(0, e.spilled.shape[0], (e.batch,), device="cuda")
        fresh = torch.randn(e.batch, e.dim, device="cuda")
        slots = e.prefetch(idx, fresh)
        return (e.lookup(slots) @ self.top).mean()


if __name__ == "__main__":
    t = Trainer()
    losses = [t.step() for _ in range(50)]
    print(torch.stack(losses).mean().item(), t.emb.flush().item())
