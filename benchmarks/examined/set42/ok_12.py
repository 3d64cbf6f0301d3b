"""Host embedding table with device cache; both directions use one copy stream."""
import torch
import torch.nn as nn


class SlotTable:
    def __init__(self, slots):
        self.row_of = [-1] * slots
        self.slot_of = {}
        self.hand = 0

    def assign(self, rows, protected):
        chosen, evicted = [], []
        for row in rows:
            while self.row_of[self.hand] in protected:
                self.hand = (self.hand + 1) % len(self.row_of)
            slot = self.hand
            self.hand = (self.hand + 1) % len(self.row_of)
            evicted.append(self.row_of[slot])
            self.slot_of.pop(self.row_of[slot], None)
            self.row_of[slot], self.slot_of[row] = row, slot
            chosen.append(slot)
        return chosen, evicted


class HostTable:
    def __init__(self, rows, dim):
        self.weight = torch.randn(rows, dim)
        self._late = None

    def owe(self, rows, staged, event):
        self._late = (rows, staged, event)

    def settle(self):
        if self._late is None:
            return
        rows, staged, event = self._late
        event.synchronize()
        valid = rows >= 0
        self.weight[rows[valid]] = staged[valid]
        self._late = None

    def gather(self, rows):
        self.settle()
        return self.weight[rows].pin_memory()


class DeviceCache:
    def __init__(self, table, slots, device):
        self.table = table
        self.device = torch.device(device)
        self.data = torch.zeros(slots, table.weight.shape[1], device=device)
        self.stream = torch.cuda.Stream(device)
        self.index = SlotTable(slots)

    def _swap(self, slots, incoming, evicted):
        out = torch.empty(incoming.shape, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            old = self.data.index_select(0, slots)
            out.copy_(old, non_blocking=True)
            left = self.stream.record_event()
            fresh = incoming.to(self.device, non_blocking=True)
            self.data.index_copy_(0, slots, fresh)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self.table.owe(torch.tensor(evicted), out, left)

    def slots_for(self, rows):
        wanted = set(rows.tolist())
        missing = sorted(wanted - self.index.slot_of.keys())
        if missing:
            incoming = self.table.gather(torch.tensor(missing))
            chosen, evicted = self.index.assign(missing, wanted)
            self._swap(torch.tensor(chosen, device=self.device), incoming, evicted)
        return torch.tensor([self.index.slot_of[r] for r in rows.tolist()], device=self.device)


class Scorer(nn.Module):
    def __init__(self, cache, dim):
        super().__init__()
        self.cache = cache
        self.head = nn.Linear(dim, 1).to(cache.device)

    def forward(self, rows):
        return self.head(self.cache.data[self.cache.slots_for(rows)]).sigmoid()


@torch.no_grad()
def main():
    cache = DeviceCache(HostTable(100_000, 64), 4096, "cuda:0")
    model = Scorer(cache, 64)
    for _ in range(30):
        rows = torch.randint(0, 100_000, (1024,))
        scores = model(rows)
        cache.data[cache.slots_for(rows).unique()] *= 0.999
    cache.table.settle()
    print(scores.mean().item())


if __name__ == "__main__":
    main()
