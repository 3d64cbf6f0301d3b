"""Embedding cache whose rows are refilled in place between lookups (torch)."""
import collections

import torch
import torch.nn as nn


class HostTable:
    """Full table in pageable memory; rows are gathered into a page-locked window."""

    def __init__(self, rows, dim, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(rows, dim, generator=g)

    def gather(self, ids, out):
        torch.index_select(self.weight, 0, ids, out=out)


class Window:
    def __init__(self, rows, dim):
        self.rows = torch.empty(rows, dim, pin_memory=True)
        self.slots = torch.empty(rows, dtype=torch.long, pin_memory=True)
        self.moved = torch.cuda.Event()

    def open(self):
        self.moved.synchronize()
        return self

    def push(self, n, device):
        data = self.rows[:n].to(device, non_blocking=True)
        where = self.slots[:n].to(device, non_blocking=True)
        self.moved.record()
        return data, where


class CachedEmbedding(nn.Module):
    def __init__(self, table, capacity, device="cuda"):
        super().__init__()
        self.table = table
        self.capacity = capacity
        dim = table.weight.size(1)
        self.register_buffer("cache", torch.zeros(capacity, dim, device=device), persistent=False)
        self.slot_of = collections.OrderedDict()
        self.free = list(range(capacity))
        self.windows = [Window(capacity, dim), Window(capacity, dim)]
        self.turn = 0

    def _slot(self, row, pinned_rows):
        if self.free:
            return self.free.pop()
        for victim in self.slot_of:
            if victim not in pinned_rows:
                return self.slot_of.pop(victim)
        raise RuntimeError("cache too small for one batch")

    def prepare(self, ids):
        wanted = ids.unique().tolist()
        need = set(wanted)
        missing = [r for r in wanted if r not in self.slot_of]
        for r in wanted:
            if r in self.slot_of:
                self.slot_of.move_to_end(r)
        if missing:
            win = self.windows[self.turn].open()
            self.turn ^= 1
            n = len(missing)
            self.table.gather(torch.tensor(missing), win.rows[:n])
            for k, r in enumerate(missing):
                slot = self._slot(r, need)
                self.slot_of[r] = slot
                win.slots[k] = slot
            data, where = win.push(n, self.cache.device)
            self.cache.index_copy_(0, where, data)
        mapped = torch.tensor([self.slot_of[r] for r in ids.flatten().tolist()]).view(ids.shape)
        return mapped.to(self.cache.device)

    def forward(self, ids):
        return nn.functional.embedding(self.prepare(ids), self.cache)


class Ranker(nn.Module):
    def __init__(self, emb, dim):
        super().__init__()
        self.emb = emb
        self.mlp = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, ids):
        return self.mlp(self.emb(ids).mean(1)).squeeze(-1)


@torch.inference_mode()
def serve(model, batches):
    scores = [model(ids) for ids in batches]
    return torch.stack(scores).cpu()


def main():
    torch.manual_seed(0)
    table = HostTable(200_000, 128)
    model = Ranker(CachedEmbedding(table, 4096), 128).cuda().eval()
    g = torch.Generator().manual_seed(2)
    batches = [(torch.rand(64, 20, generator=g) ** 3 * 200_000).long() for _ in range(30)]
    print(serve(model, batches).mean(dim=1).tolist()[:5])


if __name__ == "__main__":
    main()
