"""Embedding table in host memory with a device cache that is filled one batch ahead."""
import torch
from torch import nn


class CachedEmbeddingBag(nn.Module):
    """Rows live in pinned host memory; the device holds a fully associative LRU cache of rows."""

    def __init__(self, num_rows, dim, cache_rows, device):
        super().__init__()
        self.host_weight = torch.randn(num_rows, dim).mul_(dim**-0.5).pin_memory()
        self.cache = torch.zeros(cache_rows, dim, device=device)
        self.device = device
        self.slot_of_row = {}
        self.row_of_slot = [-1] * cache_rows
        self.slot_time = torch.zeros(cache_rows, dtype=torch.long)
        self.timestep = 0
        self.locations = []

    def _assign_slots(self, rows):
        """Return (slot of every row, rows that must be brought in)."""
        self.timestep += 1
        hits = [r for r in rows if r in self.slot_of_row]
        misses = [r for r in rows if r not in self.slot_of_row]
        for r in hits:
            self.slot_time[self.slot_of_row[r]] = self.timestep
        order = iter(torch.argsort(self.slot_time, stable=True).tolist())
        for r in misses:
            slot = next(order)
            old = self.row_of_slot[slot]
            if old >= 0:
                del self.slot_of_row[old]
            self.row_of_slot[slot] = r
            self.slot_of_row[r] = slot
            self.slot_time[slot] = self.timestep
        return [self.slot_of_row[r] for r in rows], misses

    @torch.no_grad()
    def prefetch(self, indices):
        """indices: (batch, bag) on the host; runs on the stream that is current."""
        rows, inverse = torch.unique(indices, return_inverse=True)
        slots, misses = self._assign_slots(rows.tolist())
        if misses:
            staged = self.host_weight[torch.tensor(misses)].pin_memory()
            where = torch.tensor([self.slot_of_row[r] for r in misses]).pin_memory()
            staged = staged.to(self.device, non_blocking=True)
            where = where.to(self.device, non_blocking=True)
            self.cache.index_copy_(0, where, staged)
        locations = torch.tensor(slots)[inverse].pin_memory()
        self.locations.append(locations.to(self.device, non_blocking=True))

    def forward(self):
        locations = self.locations.pop(0)
        locations.record_stream(torch.cuda.current_stream(self.device))
        return self.cache[locations].sum(dim=1)


class DenseTower(nn.Module):
    def __init__(self, dim, hidden=2048, depth=6):
        super().__init__()
        layers = [nn.Linear(dim, hidden), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(hidden, hidden), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class PrefetchPipeline:
    """prefetch(i + 1) overlaps with the forward of batch i."""

    def __init__(self, table, tower, device):
        self.table = table
        self.tower = tower
        self.device = device
        self.prefetch_stream = torch.cuda.Stream(device=device)
        self.prefetch_stream.wait_stream(torch.cuda.current_stream(device))

    def _prefetch(self, indices):
        with torch.cuda.stream(self.prefetch_stream):
            self.table.prefetch(indices)
            done = torch.cuda.Event()
            done.record()
        return done

    @torch.inference_mode()
    def run(self, batches):
        scores = []
        it = iter(batches)
        done = self._prefetch(next(it))
        while done is not None:
            torch.cuda.current_stream(self.device).wait_event(done)
            pooled = self.table()
            upcoming = next(it, None)
            done = self._prefetch(upcoming) if upcoming is not None else None
            scores.append(torch.sigmoid(self.tower(pooled)))
        return torch.cat(scores).cpu()
