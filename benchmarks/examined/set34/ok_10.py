"""Write-back of cache blocks to host memory; device blocks return to the free list once stored."""
from collections import deque

import torch


class BlockCache:
    def __init__(self, num_blocks, block_shape, dtype=torch.float16):
        self.data = torch.zeros(num_blocks, *block_shape, dtype=dtype, device="cuda")
        self.free = deque(range(num_blocks))

    def allocate(self, n):
        if len(self.free) < n:
            return None
        return [self.free.popleft() for _ in range(n)]


class StoreJob:
    def __init__(self, key, blocks, host, done):
        self.key = key
        self.blocks = blocks
        self.host = host
        self.done = done


class HostTier:
    """Copies finished sequences to page-locked memory on a low-priority stream."""

    def __init__(self, cache):
        self.cache = cache
        self.stream = torch.cuda.Stream(priority=0)
        self.jobs = deque()
        self.stored = {}

    def store(self, key, blocks):
        written = torch.cuda.current_stream().record_event()
        host = torch.empty(len(blocks), *self.cache.data.shape[1:], dtype=self.cache.data.dtype, pin_memory=True)
        self.stream.wait_event(written)
        with torch.cuda.stream(self.stream):
            for row, block in enumerate(blocks):
                host[row].copy_(self.cache.data[block], non_blocking=True)
            done = self.stream.record_event()
        self.jobs.append(StoreJob(key, blocks, host, done))

    def poll(self, block_until=0):
        finished = []
        while self.jobs:
            job = self.jobs[0]
            if len(self.cache.free) < block_until:
                job.done.synchronize()
            elif not job.done.query():
                break
            self.jobs.popleft()
            self.cache.free.extend(job.blocks)
            self.stored[job.key] = job.host
            finished.append(job.key)
        return finished


class Engine:
    def __init__(self, num_blocks=64, block_shape=(16, 8, 128)):
        self.cache = BlockCache(num_blocks, block_shape)
        self.tier = HostTier(self.cache)
        self.weight = torch.randn(block_shape[-1], block_shape[-1], dtype=torch.float16, device="cuda") / 12

    def prefill(self, key, length):
        self.tier.poll()
        blocks = self.cache.allocate(length)
        if blocks is None:
            self.tier.poll(block_until=length)
            blocks = self.cache.allocate(length)
        if blocks is None:
            raise MemoryError("cache exhausted")
        shape = self.cache.data.shape[1:]
        for block in blocks:
            x = torch.randn(shape, dtype=torch.float16, device="cuda")
            self.cache.data[block].copy_(torch.tanh(x @ self.weight))
        self.tier.store(key, blocks)


@torch.inference_mode()
def main():
    engine = Engine()
    for n in range(100):
        engine.prefill(f"seq{n}", 4 + n % 5)
    engine.tier.poll(block_until=64)
    print(len(engine.tier.stored), engine.tier.stored["seq0"].float().abs().mean().item())


if __name__ == "__main__":
    main()
