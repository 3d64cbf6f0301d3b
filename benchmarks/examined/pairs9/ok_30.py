"""Prefix cache with a host tier: device blocks are recycled once their copy has arrived."""
from collections import deque
from dataclasses import dataclass

import torch


class BlockPool:
    def __init__(self, n_blocks):
        self.free = deque(range(n_blocks))

    def take(self, n):
        if len(self.free) < n:
            return None
        return [self.free.popleft() for _ in range(n)]

    def give(self, blocks):
        self.free.extend(blocks)


@dataclass
class Store:
    key: int
    device_blocks: list
    host_blocks: list
    done: torch.cuda.Event


class OffloadConnector:
    def __init__(self, kv, pool, host_blocks):
        self.kv = kv
        self.pool = pool
        self.host = torch.empty((host_blocks, *kv.shape[1:]), dtype=kv.dtype, pin_memory=True)
        self.host_pool = BlockPool(host_blocks)
        self.stream = torch.cuda.Stream()
        self.active = deque()
        self.index = {}

    def store(self, key, blocks):
        targets = self.host_pool.take(len(blocks))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for b, h in zip(blocks, targets):
                self.host[h].copy_(self.kv[b], non_blocking=True)
            done = self.stream.record_event()
        self.active.append(Store(key, blocks, targets, done))

    def poll(self, block=False):
        while self.active and (block or self.active[0].done.query()):
            job = self.active.popleft()
            job.done.synchronize()
            self.pool.give(job.device_blocks)
            self.index[job.key] = job.host_blocks
            block = False

    def checksum(self, key):
        return sum(self.host[h].double().sum().item() for h in self.index[key])


class Engine:
    def __init__(self, n_blocks=16, block=16, dim=512):
        self.kv = torch.zeros(n_blocks, block, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.pool = BlockPool(n_blocks)
        self.connector = OffloadConnector(self.kv, self.pool, host_blocks=512)

    def prefill(self, key, prompt):
        blocks = self.pool.take(4)
        while blocks is None:
            self.connector.poll(block=True)
            blocks = self.pool.take(4)
        for i, b in enumerate(blocks):
            self.kv[b] = prompt[i] @ self.w
        self.connector.store(key, blocks)


@torch.inference_mode()
def main():
    engine = Engine()
    for key in range(100):
        engine.prefill(key, torch.randn(4, 16, 512, device="cuda"))
        engine.connector.poll()
    while engine.connector.active:
        engine.connector.poll(block=True)
    print([engine.connector.checksum(k) for k in range(3)])


if __name__ == "__main__":
    main()
