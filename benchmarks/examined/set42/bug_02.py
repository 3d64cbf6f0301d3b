"""Concurrent KV retrieves on several transfer lanes."""
import itertools
from dataclasses import dataclass

import torch

PAGE = 16


@dataclass
class RetrieveRequest:
    key: str
    blocks: list


class TransferLane:
    def __init__(self, max_blocks, width, device):
        self.stream = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()
        self.chunk = torch.empty(max_blocks, PAGE, width, dtype=torch.float16, device=device)


class CacheContext:
    """Paged KV of one worker, its host pool and its lanes."""

    def __init__(self, num_pages, width, max_blocks, lanes, device):
        self.device = device
        self.kv = torch.zeros(num_pages, PAGE, width, dtype=torch.float16, device=device)
        self.block_ids = torch.empty(max_blocks, dtype=torch.int64, device=device)
        self.host_pool = {}
        self.lanes = [TransferLane(max_blocks, width, device) for _ in range(lanes)]
        self._turn = itertools.cycle(self.lanes)

    def next_retrieve_lane(self):
        return next(self._turn)

    def insert(self, key, chunk):
        self.host_pool[key] = chunk.pin_memory()

    def stage_block_ids(self, blocks):
        ids = torch.tensor(blocks, dtype=torch.int64).pin_memory()
        staged = self.block_ids[: len(blocks)]
        staged.copy_(ids, non_blocking=True)
        return staged


class RetrieveServer:
    def __init__(self, ctx):
        self.ctx = ctx

    def submit(self, req):
        lane = self.ctx.next_retrieve_lane()
        host = self.ctx.host_pool[req.key]
        lane.stream.wait_stream(torch.cuda.current_stream(self.ctx.device))
        with torch.cuda.stream(lane.stream):
            ids = self.ctx.stage_block_ids(req.blocks)
            chunk = lane.chunk[: len(req.blocks)]
            chunk.copy_(host, non_blocking=True)
            self.ctx.kv.index_copy_(0, ids, chunk)
            lane.done.record(lane.stream)
        return lane.done

    def retrieve(self, requests):
        current = torch.cuda.current_stream(self.ctx.device)
        pending = [self.submit(r) for r in requests]
        for event in pending:
            current.wait_event(event)


class Worker:
    def __init__(self, width, device="cuda:0"):
        self.ctx = CacheContext(512, width, 32, 2, torch.device(device))
        self.server = RetrieveServer(self.ctx)
        self.proj = torch.randn(width, 1, dtype=torch.float16, device=device)

    def step(self, requests):
        self.server.retrieve(requests)
        pages = torch.tensor([b for r in requests for b in r.blocks], device=self.ctx.device)
        return (self.ctx.kv[pages] @ self.proj).sum()


def main():
    worker = Worker(64)
    for name in ("sys", "user"):
        worker.ctx.insert(name, torch.randn(8, PAGE, 64).half())
    reqs = [RetrieveRequest("sys", list(range(8))),
            RetrieveRequest("user", list(range(100, 108)))]
    for _ in range(10):
        print(worker.step(reqs).item())


if __name__ == "__main__":
    main()
