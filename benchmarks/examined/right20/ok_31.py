import threading
import time

import torch


class LazyAdapters:
    """LoRA pairs are made in the background; a request spins until its pair is listed."""

    def __init__(self, dim, rank):
        self.dim, self.rank = dim, rank
        self.table = {}
        self.asked = set()
        self.lock = threading.Lock()

    def _load(self, key):
        stream = torch.cuda.Stream()
        g = torch.Generator().manual_seed(key)
        a = torch.randn(self.dim, self.rank, generator=g).pin_memory()
        b = torch.randn(self.rank, self.dim, generator=g).pin_memory()
        with torch.no_grad(), torch.cuda.stream(stream):
            da = a.to("cuda", non_blocking=True)
            db = b.to("cuda", non_blocking=True)
            da /= da.norm()
            db /= db.norm()
            done = torch.cuda.Event()
            done.record(stream)
        self.table[key] = (da, db, done)

    def request(self, key):
        with self.lock:
            if key in self.asked:
                return
            self.asked.add(key)
        threading.Thread(target=self._load, args=(key,), daemon=True).start()

    def get(self, key):
        self.request(key)
        while key not in self.table:
            time.sleep(0.0005)
        da, db, done = self.table[key]
        here = torch.cuda.current_stream()
        here.wait_event(done)
        da.record_stream(here)
        db.record_stream(here)
        return da, db

    def drop(self, key):
        self.table.pop(key)
        self.asked.discard(key)


@torch.no_grad()
def serve(rounds=40, dim=512, rank=16, tenants=6):
    base = torch.randn(dim, dim, device="cuda") / dim**0.5
    adapters = LazyAdapters(dim, rank)
    acc = torch.zeros(dim, device="cuda")
    for r in range(rounds):
        key = (r * 5) % tenants
        adapters.request((key + 5) % tenants)
        x = torch.randn(32, dim, device="cuda")
        a, b = adapters.get(key)
        y = x @ base + (x @ a) @ b
        acc += y.mean(0)
        if r % 4 == 3:
            adapters.drop(key)
    return acc.norm().item()


if __name__ == "__main__":
    print(serve())
