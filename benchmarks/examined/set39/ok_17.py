"""Disaggregated serving with KV migration issued from the prefill worker's stream."""
from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    rid: int
    tokens: int
    blocks: list = field(default_factory=list)
    remote: list = field(default_factory=list)


class Worker:
    def __init__(self, device, count, shape):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.stream):
            self.pool = torch.zeros(count, *shape, device=self.device)
        self.free = list(range(count))

    def take(self, n):
        return [self.free.pop() for _ in range(n)]


class ContextWorker(Worker):
    def __init__(self, device, count, shape):
        super().__init__(device, count, shape)
        with torch.cuda.stream(self.stream):
            self.proj = torch.randn(shape[1], shape[1], device=self.device) * 0.02

    def prefill(self, request, block_size):
        request.blocks = self.take(-(-request.tokens // block_size))
        with torch.cuda.stream(self.stream):
            for i, b in enumerate(request.blocks):
                x = torch.full_like(self.pool[b], float(request.rid + i))
                torch.matmul(x, self.proj, out=self.pool[b])


class DecodeWorker(Worker):
    def migrate(self, request, source):
        request.remote = self.take(len(request.blocks))
        with torch.cuda.stream(source.stream), torch.cuda.stream(self.stream):
            for src, dst in zip(request.blocks, request.remote):
                self.pool[dst].copy_(source.pool[src], non_blocking=True)
        return self.stream.record_event()

    def decode(self, request, arrived):
        torch.cuda.current_stream(self.device).wait_event(arrived)
        kv = torch.stack([self.pool[b] for b in request.remote])
        return kv.abs().mean()


def serve(lengths, block_size=16, hidden=4096):
    context = ContextWorker("cuda:0", 512, (block_size, hidden))
    decoder = DecodeWorker("cuda:1", 512, (block_size, hidden))
    scores = []
    for rid, n in enumerate(lengths):
        request = Request(rid, n)
        context.prefill(request, block_size)
        arrived = decoder.migrate(request, context)
        scores.append(decoder.decode(request, arrived))
    return [s.item() for s in scores]


if __name__ == "__main__":
    print(serve([900, 300, 1200, 640]))
