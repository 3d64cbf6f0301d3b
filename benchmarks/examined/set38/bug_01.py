"""Staged KV block transfers between a paged cache and a pinned host pool."""
import threading
from collections import OrderedDict

import torch


class TransferContext:
    def __init__(self, kv_cache, block_size, max_blocks):
        self.device = kv_cache.device
        self.kv_cache = kv_cache
        self.block_size = block_size
        self.stream = torch.cuda.Stream(device=self.device)
        self.high_priority_stream = torch.cuda.Stream(device=self.device, priority=-1)
        self.lock = threading.Lock()
        hidden = kv_cache.shape[-1]
        self.tmp_gpu_buffer = torch.empty(
            (max_blocks, block_size, hidden), dtype=kv_cache.dtype, device=self.device
        )
        torch.cuda.synchronize(self.device)

    def staging(self, n):
        return self.tmp_gpu_buffer[:n]


class HostPool:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = OrderedDict()

    def reserve(self, key, like):
        while len(self.entries) >= self.capacity:
            self.entries.popitem(last=False)
        self.entries[key] = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        return self.entries[key]

    def find(self, key):
        return self.entries.get(key)


class CacheServer:
    def __init__(self, ctx, pool):
        self.ctx = ctx
        self.pool = pool
        self.stored = 0
        self.hits = 0

    def store(self, key, block_ids):
        ctx = self.ctx
        engine_done = torch.cuda.current_stream().record_event()
        with ctx.lock, torch.cuda.stream(ctx.stream):
            ctx.stream.wait_event(engine_done)
            buf = ctx.staging(len(block_ids))
            for i, b in enumerate(block_ids):
                buf[i].copy_(ctx.kv_cache[b], non_blocking=True)
            dst = self.pool.reserve(key, buf)
            dst.copy_(buf, non_blocking=True)
        self.stored += 1
        return dst

    def retrieve(self, key, block_ids):
        ctx = self.ctx
        src = self.pool.find(key)
        if src is None:
            return False
        engine_done = torch.cuda.current_stream().record_event()
        with ctx.lock, torch.cuda.stream(ctx.high_priority_stream):
            ctx.high_priority_stream.wait_event(engine_done)
            buf = ctx.staging(len(block_ids))
            buf.copy_(src, non_blocking=True)
            for i, b in enumerate(block_ids):
                ctx.kv_cache[b].copy_(buf[i], non_blocking=True)
            loaded = ctx.high_priority_stream.record_event()
        torch.cuda.current_stream().wait_event(loaded)
        self.hits += 1
        return True

    def flush(self):
        self.ctx.stream.synchronize()


def main():
    torch.manual_seed(0)
    kv = torch.randn(64, 16, 1024, device="cuda", dtype=torch.float16)
    server = CacheServer(TransferContext(kv, 16, 8), HostPool(32))
    server.store("prefix-0", list(range(8)))
    server.flush()
    for step in range(1, 20):
        blocks = [(step * 8 + i) % 64 for i in range(8)]
        server.store(f"prefix-{step}", blocks)
        server.retrieve(f"prefix-{step - 1}", [(b + 8) % 64 for b in blocks])
        scores = kv.float().mean(dim=-1)
        server.flush()
    print(server.stored, server.hits, scores.sum().item())


if __name__ == "__main__":
    main()
