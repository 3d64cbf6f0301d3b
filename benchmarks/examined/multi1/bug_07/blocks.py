import torch


class BlockCache:
    def __init__(self, lane, blocks, heads, tokens, dim, device="cuda"):
        self.lane = lane
        shape = (blocks, 2, heads, tokens, dim)
        self.pool = torch.zeros(shape, dtype=torch.float16, device=device)
        self.backing = torch.empty(shape, dtype=torch.float16, pin_memory=True)
        self.free = list(range(blocks))
        self.swapped = set()

    def write(self, idx, kv):
        self.pool[idx].copy_(kv)

    def swap_out(self, idx):
        with self.lane.open():
            self.backing[idx].copy_(self.pool[idx], non_blocking=True)
        self.pool[idx].zero_()
        self.swapped.add(idx)

    def swap_out_many(self, ids):
        with self.lane.open(join=False):
            for idx in ids:
                self.backing[idx].copy_(self.pool[idx], non_blocking=True)
        for idx in ids:
            self.pool[idx].zero_()
        self.swapped.update(ids)

    def swap_in(self, idx):
        with self.lane.open():
            self.pool[idx].copy_(self.backing[idx], non_blocking=True)
        self.swapped.discard(idx)
        return self.pool[idx]
