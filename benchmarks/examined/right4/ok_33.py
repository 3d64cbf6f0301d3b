from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Transfer:
    kind: str
    request: str
    gpu_blocks: list
    event: torch.cuda.Event


class BlockPool:
    def __init__(self, n):
        self.free = deque(range(n))

    def take(self, n):
        return [self.free.popleft() for _ in range(n)]

    def give(self, blocks):
        self.free.extend(blocks)


class KvOffloader:
    def __init__(self, gpu, host_blocks, pool):
        self.gpu, self.pool = gpu, pool
        self.host = torch.empty(host_blocks, *gpu.shape[1:], dtype=gpu.dtype, pin_memory=True)
        self.host_pool = BlockPool(host_blocks)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.where: dict[str, list] = {}
        self.flying: deque[Transfer] = deque()

    def _submit(self, kind, request, gpu_blocks, host_blocks):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for g, h in zip(gpu_blocks, host_blocks):
                src, dst = (self.gpu[g], self.host[h]) if kind == "store" else (self.host[h], self.gpu[g])
                dst.copy_(src, non_blocking=True)
            event = self.stream.record_event()
        self.flying.append(Transfer(kind, request, gpu_blocks, event))

    def store(self, request, gpu_blocks):
        self.where[request] = self.host_pool.take(len(gpu_blocks))
        self._submit("store", request, gpu_blocks, self.where[request])

    def load(self, request):
        host = self.where[request]
        gpu_blocks = self.pool.take(len(host))
        self._submit("load", request, gpu_blocks, host)
        return gpu_blocks

    def finished(self):
        loaded = []
        while self.flying and self.flying[0].event.query():
            t = self.flying.popleft()
            if t.kind == "store":
                self.pool.give(t.gpu_blocks)
            else:
                self.host_pool.give(self.where.pop(t.request))
                loaded.append((t.request, t.gpu_blocks))
        return loaded


class Engine:
    def __init__(self, blocks=64, width=4096):
        self.pool = BlockPool(blocks)
        self.kv = torch.zeros(blocks, width, dtype=torch.float16, device="cuda")
        self.offload = KvOffloader(self.kv, 256, self.pool)

    def prefill(self, request, n, value):
        blocks = self.pool.take(n)
        self.kv[torch.tensor(blocks, device="cuda")] = value
        self.offload.store(request, blocks)

    def wait_for(self, want):
        while True:
            for request, blocks in self.offload.finished():
                if request == want:
                    return self.kv[torch.tensor(blocks, device="cuda")].float().mean().item()


def main():
    engine = Engine()
    for i in range(8):
        engine.prefill(f"r{i}", 4, float(i))
    means = []
    for i in range(8):
        engine.offload.load(f"r{i}")
        means.append(engine.wait_for(f"r{i}"))
    return means
