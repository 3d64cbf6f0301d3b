from collections import deque
from itertools import islice

import torch


def read_shards(count, rows=4096, dim=128):
    for i in range(count):
        gen = torch.Generator().manual_seed(i)
        yield i, torch.randn(rows, dim, generator=gen).pin_memory()


def upload(shards, stream):
    for index, host in shards:
        with torch.cuda.stream(stream):
            block = host.to("cuda", non_blocking=True)
            block = torch.nn.functional.normalize(block, dim=-1)
        yield index, block, stream.record_event()


def look_ahead(items, depth):
    window = deque(islice(items, depth))
    while window:
        yield window.popleft()
        window.extend(islice(items, 1))


def on_current(items, stream):
    for index, block, event in items:
        torch.cuda.current_stream().wait_event(event)
        yield index, block
        stream.wait_stream(torch.cuda.current_stream())


def shard_stream(count, depth=2):
    stream = torch.cuda.Stream()
    return on_current(look_ahead(upload(read_shards(count), stream), depth), stream)


@torch.no_grad()
def knn(queries, count, k=8):
    best = torch.full((queries.shape[0], k), -2.0, device="cuda")
    where = torch.full((queries.shape[0], k), -1, dtype=torch.long, device="cuda")
    for index, block in shard_stream(count):
        scores, rows = (queries @ block.t()).topk(k, dim=-1)
        rows += index * block.shape[0]
        scores = torch.cat([best, scores], -1)
        rows = torch.cat([where, rows], -1)
        best, pick = scores.topk(k, dim=-1)
        where = rows.gather(1, pick)
    return best.cpu(), where.cpu()


if __name__ == "__main__":
    q = torch.nn.functional.normalize(torch.randn(512, 128, device="cuda"), dim=-1)
    print(knn(q, 40))
