from concurrent.futures import ThreadPoolExecutor

import torch


class Shard:
    def __init__(self, rows, dim):
        self.stream = torch.cuda.Stream()
        self.executor = ThreadPoolExecutor(1)
        self.table = self.executor.submit(self._build, rows, dim).result()

    def _build(self, rows, dim):
        with torch.cuda.stream(self.stream):
            return torch.zeros(rows, dim, device="cuda")

    def _write(self, rows, values):
        with torch.cuda.stream(self.stream):
            self.table[rows.cuda()] = values.cuda()

    def _read(self, rows):
        with torch.cuda.stream(self.stream):
            return self.table[rows.cuda()].cpu()

    def _scale(self, factor):
        with torch.cuda.stream(self.stream):
            self.table.mul_(factor)

    def submit(self, method, *args):
        return self.executor.submit(getattr(self, method), *args)


class ShardedTable:
    def __init__(self, shards, rows, dim):
        self.shards = [Shard(rows, dim) for _ in range(shards)]
        self.dim = dim

    def _route(self, keys):
        which = keys % len(self.shards)
        for i, shard in enumerate(self.shards):
            index = (which == i).nonzero().squeeze(-1)
            if index.numel():
                yield shard, index, keys[index] // len(self.shards)

    def write(self, keys, values):
        return [s.submit("_write", rows, values[index]) for s, index, rows in self._route(keys)]

    def read(self, keys):
        out = torch.empty(len(keys), self.dim)
        waiting = [(index, s.submit("_read", rows)) for s, index, rows in self._route(keys)]
        for index, future in waiting:
            out[index] = future.result()
        return out

    def decay(self, factor):
        for s in self.shards:
            s.submit("_scale", factor)

    def close(self):
        for s in self.shards:
            s.executor.shutdown()
        torch.cuda.synchronize()


def main():
    table = ShardedTable(4, 10_000, 32)
    for _ in range(50):
        keys = torch.randperm(40_000)[:512]
        table.write(keys, torch.randn(512, 32))
        table.decay(0.99)
        table.read(keys[:64])
    table.close()
