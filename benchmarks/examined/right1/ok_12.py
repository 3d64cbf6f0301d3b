"""Forward-only pipeline stage that posts the next receive before computing."""
import os
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class Mailbox:
    """Receives activations from the previous stage into two alternating buffers."""

    def __init__(self, shape, peer, count):
        self.buffers = [torch.empty(shape, device="cuda") for _ in range(2)]
        self.peer = peer
        self.count = count
        self.posted = 0
        self.works = deque()

    def post(self):
        if self.posted < self.count:
            buf = self.buffers[self.posted % 2]
            self.works.append((dist.irecv(buf, src=self.peer), buf))
            self.posted += 1

    def take(self):
        work, buf = self.works.popleft()
        work.wait()
        return buf


class Outbox:
    def __init__(self, peer, window=2):
        self.peer = peer
        self.window = window
        self.sent = deque()

    def send(self, y):
        self.sent.append((dist.isend(y, dst=self.peer), y))
        self.flush(self.window)

    def flush(self, keep=0):
        while len(self.sent) > keep:
            work, y = self.sent.popleft()
            work.wait()


class Stage:
    def __init__(self, module, shape, micro_batches):
        rank, world = dist.get_rank(), dist.get_world_size()
        self.module = module
        self.first = rank == 0
        self.last = rank == world - 1
        self.micro_batches = micro_batches
        self.shape = shape
        self.inbox = None if self.first else Mailbox(shape, rank - 1, micro_batches)
        self.outbox = None if self.last else Outbox(rank + 1)

    @torch.no_grad()
    def run(self):
        results = []
        if self.inbox is not None:
            self.inbox.post()
        for m in range(self.micro_batches):
            if self.first:
                x = torch.full(self.shape, float(m), device="cuda")
            else:
                x = self.inbox.take()
                self.inbox.post()
            y = self.module(x)
            if self.last:
                results.append(y.mean())
            else:
                self.outbox.send(y)
        if self.outbox is not None:
            self.outbox.flush()
        return torch.stack(results).tolist() if results else []


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    module = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    stage = Stage(module, (16, 1024), micro_batches=32)
    means = stage.run()
    if stage.last:
        print(means)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
