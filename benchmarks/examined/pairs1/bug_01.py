"""Secondary KV tier in host memory, filled eagerly while requests decode."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class StoreJob:
    host_ids: list
    event: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class HostTierWriter:
    def __init__(self, caches, host_blocks):
        self.caches = caches
        self.host = [
            torch.empty((host_blocks, *c.shape[1:]), dtype=c.dtype, pin_memory=True) for c in caches
        ]
        self.stream = torch.cuda.Stream(priority=0)
        self.jobs = deque()
        self.last_store = {}

    def store(self, gpu_block, host_block):
        job = StoreJob([host_block])
        with torch.cuda.stream(self.stream):
            for cache, host in zip(self.caches, self.host):
                host[host_block].copy_(cache[gpu_block], non_blocking=True)
            job.event.record()
        self.last_store[gpu_block] = job.event
        self.jobs.append(job)

    def acquire(self, gpu_block):
        event = self.last_store.pop(gpu_block, None)
        if event is not None:
            event.wait()

    def drain(self):
        while self.jobs:
            job = self.jobs.popleft()
            job.event.synchronize()
            yield from job.host_ids


def decode(num_layers=8, num_blocks=64, steps=256):
    caches = [torch.zeros(num_blocks, 16, 256, device="cuda") for _ in range(num_layers)]
    proj = torch.randn(256, 256, device="cuda")
    tier = HostTierWriter(caches, steps)
    for step in range(steps):
        block = step % num_blocks
        tier.acquire(block)
        x = torch.randn(16, 256, device="cuda")
        for cache in caches:
            x = torch.tanh(x @ proj)
            cache[block].copy_(x)
        tier.store(block, step)
    return sum(float(tier.host[0][i].sum()) for i in tier.drain())


if __name__ == "__main__":
    print(decode())
