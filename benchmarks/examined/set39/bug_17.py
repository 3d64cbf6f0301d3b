"""Disaggregated serving: prefill on one GPU, decode on another, KV migrates between them."""
from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    rid: int
    tokens: int
    blocks: list = field(default_factory=list)
    remote: list = field(default_factory=list)


class BlockPool:
    def __init__(self, count, shape, device):
        self.data = torch.zeros(count, *shape, device=device)
        self.free = list(range(count))

    def take(self, n):
        return [self.free.pop() for _ in range(n)]


class ContextWorker:
    def __init__(self, pool, hidden, device):
        self.device = torch.device(device)
        self.pool = pool
        self.proj = torch.randn(hidden, hidden, device=self.device) * 0.02
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def prefill(self, request, block_size):
        need = -(-request.tokens // block_size)
        request.blocks = self.pool.take(need)
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            for i, b in enumerate(request.blocks):
                x = torch.full_like(self.pool.data[b], float(request.rid + i))
                torch.matmul(x, self.proj, out=self.pool.data[b])


class DecodeWorker:
    def __init__(self, pool, device):
        self.device = torch.device(device)
        self.pool = pool
        self.migration = torch.cuda.Stream(self.device)
        self.migration.wait_stream(torch.cuda.current_stream(self.device))

    def migrate(self, request, source):
        request.remote = self.pool.take(len(request.blocks))
        with torch.cuda.device(self.device), torch.cuda.stream(self.migration):
            for src, dst in zip(request.blocks, request.remote):
                self.pool.data[dst].copy_(source.data[src], non_blocking=True)
            return self.migration.record_event()

    def decode(self, request, arrived):
        torch.cuda.current_stream(self.device).wait_event(arrived)
        kv = torch.stack([self.pool.data[b] for b in request.remote])
        return kv.abs().mean()


class Cluster:
    def __init__(self, block_size=16, hidden=4096):
        self.block_size = block_size
        shape = (block_size, hidden)
        self.context = ContextWorker(BlockPool(512, shape, "cuda:0"), hidden, "cuda:0")
        self.decoder = DecodeWorker(BlockPool(512, shape, "cuda:1"), "cuda:1")

    def serve(self, lengths):
        scores = []
        for rid, n in enumerate(lengths):
            request = Request(rid, n)
            self.context.prefill(request, self.block_size)
            arrived = self.decoder.migrate(request, self.context.pool)
            scores.append(self.decoder.decode(request, arrived))
        return [s.item() for s in scores]


if __name__ == "__main__":
    print(Cluster().serve([900, 300, 1200, 640]))
