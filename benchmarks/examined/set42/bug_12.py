"""Embedding table on the host with a software cache on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RowStaging:
    """Page-locked rows for one direction of traffic."""

    def __init__(self, rows, dim):
        self.data = torch.empty(rows, dim, pin_memory=True)
        self.moved = torch.cuda.Event()


class CachedParamMgr:
    def __init__(self, weight, cache_rows, max_batch_rows, device):
        self.weight = weight
        self.device = torch.device(device)
        self.cache = torch.zeros(cache_rows, weight.shape[1], device=device)
        self.row_of_slot = torch.full((cache_rows,), -1, dtype=torch.int64)
        self.slot_of_row = {}
        self.clock = 0
        self.evict_stream = torch.cuda.Stream(device)
        self.admit_stream = torch.cuda.Stream(device)
        self.outgoing = RowStaging(max_batch_rows, weight.shape[1])
        self.incoming = RowStaging(max_batch_rows, weight.shape[1])

    def _pick_slots(self, count, keep):
        slots = []
        while len(slots) < count:
            slot = self.clock
            self.clock = (self.clock + 1) % self.cache.shape[0]
            if self.row_of_slot[slot].item() not in keep:
                slots.append(slot)
        return slots

    def _evict(self, slots):
        n = slots.numel()
        with torch.cuda.stream(self.evict_stream):
            rows = self.cache.index_select(0, slots)
            self.outgoing.data[:n].copy_(rows, non_blocking=True)
            self.outgoing.moved.record(self.evict_stream)

    def _admit(self, slots, cpu_rows):
        n = slots.numel()
        torch.index_select(self.weight, 0, cpu_rows, out=self.incoming.data[:n])
        with torch.cuda.stream(self.admit_stream):
            fresh = self.incoming.data[:n].to(self.device, non_blocking=True)
            self.cache.index_copy_(0, slots, fresh)
            self.incoming.moved.record(self.admit_stream)

    def _write_back(self, old_rows):
        self.outgoing.moved.synchronize()
        valid = old_rows >= 0
        self.weight[old_rows[valid]] = self.outgoing.data[: len(old_rows)][valid]

    def prepare_ids(self, rows):
        wanted = set(rows.unique().tolist())
        missing = sorted(wanted - self.slot_of_row.keys())
        if missing:
            chosen = self._pick_slots(len(missing), wanted)
            slots = torch.tensor(chosen, device=self.device)
            current = torch.cuda.current_stream(self.device)
            self.evict_stream.wait_stream(current)
            self.admit_stream.wait_stream(current)
            old_rows = self.row_of_slot[chosen].clone()
            self._evict(slots)
            self._admit(slots, torch.tensor(missing))
            self._write_back(old_rows)
            for old in old_rows.tolist():
                self.slot_of_row.pop(old, None)
            for slot, row in zip(chosen, missing):
                self.row_of_slot[slot] = row
                self.slot_of_row[row] = slot
            self.incoming.moved.synchronize()
        return torch.tensor([self.slot_of_row[r] for r in rows.tolist()], device=self.device)


class CachedEmbeddingBag(nn.Module):
    def __init__(self, num_rows, dim, cache_rows, device="cuda:0"):
        super().__init__()
        self.mgr = CachedParamMgr(torch.randn(num_rows, dim), cache_rows, 4096, device)

    def forward(self, rows, offsets):
        slots = self.mgr.prepare_ids(rows)
        return F.embedding_bag(slots, self.mgr.cache, offsets.to(slots.device), mode="sum")

    def sgd(self, rows, lr):
        slots = self.mgr.prepare_ids(rows)
        self.mgr.cache[slots.unique()] *= 1.0 - lr


def main():
    bag = CachedEmbeddingBag(200_000, 128, 8192)
    for step in range(40):
        rows = torch.randint(0, 200_000, (2048,))
        out = bag(rows, torch.arange(0, 2048, 16))
        bag.sgd(rows, 0.01)
    print(out.norm().item())


if __name__ == "__main__":
    main()
