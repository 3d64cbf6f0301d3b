"""Tiered KV cache: loads and stores both hang on one event that each step records again."""
from collections import OrderedDict

import torch


class Tier:
    def __init__(self, kv, host_blocks):
        self.kv = kv
        self.host = torch.zeros(host_blocks, *kv.shape[1:], dtype=kv.dtype, pin_memory=True)
        self.load_stream = torch.cuda.Stream()
        self.store_stream = torch.cuda.Stream()
        self.compute_done = torch.cuda.Event()
        self.slot_of = OrderedDict()
        self.stored = {}
        self.storing = []

    def mark_compute(self):
        self.compute_done.record(torch.cuda.current_stream())

    def load(self, pairs):
        self.load_stream.wait_event(self.compute_done)
        with torch.cuda.stream(self.load_stream):
            for key, block in pairs:
                self.load_stream.wait_event(self.stored[key])
                self.kv[block].copy_(self.host[self.slot_of[key]], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.load_stream)

    def store(self, pairs):
        fresh = [(k, b) for k, b in pairs if k not in self.slot_of]
        self.store_stream.wait_event(self.compute_done)
        with torch.cuda.stream(self.store_stream):
            for key, block in fresh:
                slot = self.slot_of[key] = len(self.slot_of)
                self.host[slot].copy_(self.kv[block], non_blocking=True)
            ev = self.store_stream.record_event()
        for key, _ in fresh:
            self.stored[key] = ev
        return ev


class BlockPool:
    def __init__(self, n):
        self.free = list(range(n))
        self.held = []

    def take(self, n):
        if len(self.free) < n:
            self.reclaim(wait=True)
        out, self.free = self.free[:n], self.free[n:]
        return out

    def give_back(self, blocks, event):
        self.held.append((event, blocks))

    def reclaim(self, wait=False):
        keep = []
        for event, blocks in self.held:
            if wait:
                event.synchronize()
            if event.query():
                self.free.extend(blocks)
            else:
                keep.append((event, blocks))
        self.held = keep


class Worker:
    def __init__(self, gpu_blocks=96, host_blocks=1024, tokens=16, dim=1024):
        self.kv = torch.zeros(gpu_blocks, tokens, dim, device="cuda")
        self.pool = BlockPool(gpu_blocks)
        self.tier = Tier(self.kv, host_blocks)
        self.proj = torch.randn(dim, dim, device="cuda") / dim ** 0.5

    def step(self, prefix, blocks_each=24):
        keys = [(prefix, i) for i in range(blocks_each)]
        blocks = self.pool.take(blocks_each)
        index = torch.tensor(blocks, device="cuda")
        self.kv.index_fill_(0, index, 0)
        self.tier.mark_compute()
        if keys[0] in self.tier.slot_of:
            self.tier.load(list(zip(keys, blocks)))
        else:
            fill = torch.full((blocks_each, *self.kv.shape[1:]), 0.1 * (prefix + 1), device="cuda")
            self.kv.index_copy_(0, index, fill @ self.proj)
        out = self.kv.index_select(0, index).mean(dim=(0, 1))
        self.tier.mark_compute()
        stored = self.tier.store(list(zip(keys, blocks)))
        self.pool.give_back(blocks, stored)
        self.pool.reclaim()
        return out


def main():
    torch.manual_seed(0)
    worker = Worker()
    outs = [worker.step(p) for p in (0, 1, 2, 0, 3, 1, 4, 2, 0, 5, 5, 3)]
    print([round(o.norm().item(), 4) for o in outs])


if __name__ == "__main__":
    main()
