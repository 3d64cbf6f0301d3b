import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, List

import torch


@dataclass
class WriteOp:
    node: int
    device_blocks: List[int]
    host_blocks: List[int]
    event: torch.cuda.Event


class WriteThroughCache:
    """Backs up device KV blocks to the host; blocks return to the free list once acknowledged."""

    def __init__(self, device_blocks: int, host_blocks: int, block_numel: int):
        self.device = torch.empty(device_blocks, block_numel, device="cuda")
        self.host = torch.empty(host_blocks, block_numel, pin_memory=True)
        self.free_device = deque(range(device_blocks))
        self.free_host = deque(range(host_blocks))
        self.stream = torch.cuda.Stream()
        self.pending: Deque[WriteOp] = deque()
        self.backed_up = {}

    def alloc(self, n: int) -> List[int]:
        while len(self.free_device) < n:
            if not self.poll():
                time.sleep(1e-4)
        return [self.free_device.popleft() for _ in range(n)]

    def write_back(self, node: int, blocks: List[int]) -> None:
        targets = [self.free_host.popleft() for _ in blocks]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for d, h in zip(blocks, targets):
                self.host[h].copy_(self.device[d], non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.pending.append(WriteOp(node, blocks, targets, event))

    def poll(self) -> int:
        done = 0
        while self.pending and self.pending[0].event.query():
            op = self.pending.popleft()
            self.free_device.extend(op.device_blocks)
            self.backed_up[op.node] = op.host_blocks
            done += 1
        return done

    def flush(self) -> None:
        while self.pending:
            self.pending[0].event.synchronize()
            self.poll()


def main():
    cache = WriteThroughCache(16, 512, 1 << 16)
    for node in range(100):
        blocks = cache.alloc(4)
        for b in blocks:
            cache.device[b].fill_(float(node))
        cache.write_back(node, blocks)
        cache.poll()
    cache.flush()
    for node, hosts in cache.backed_up.items():
        assert all(float(cache.host[h].mean()) == float(node) for h in hosts)


if __name__ == "__main__":
    main()
