"""Pipeline hand-over with receives posted early and claimed by the stage that needs them."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Link:
    """Edges of a pipeline stage."""

    def __init__(self, rank, world, shape, depth=2):
        self.prev = rank - 1 if rank > 0 else None
        self.next = rank + 1 if rank + 1 < world else None
        self.inbox = [torch.empty(shape, device="cuda") for _ in range(depth)]
        self.outbox = [torch.empty(shape, device="cuda") for _ in range(depth)]
        self.recv_work = [None] * depth
        self.send_work = [None] * depth
        self.side = torch.cuda.Stream()

    def post_recv(self, i):
        if self.prev is None:
            return
        s = i % len(self.inbox)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.recv_work[s] = dist.irecv(self.inbox[s], self.prev)

    def claim(self, i):
        s = i % len(self.inbox)
        self.recv_work[s].wait()
        self.recv_work[s] = None
        return self.inbox[s]

    def send(self, i, tensor):
        if self.next is None:
            return
        s = i % len(self.outbox)
        if self.send_work[s] is not None:
            self.send_work[s].wait()
        self.outbox[s].copy_(tensor)
        self.send_work[s] = dist.isend(self.outbox[s], self.next)

    def finish(self):
        for w in self.send_work:
            if w is not None:
                w.wait()


class StageRunner:
    def __init__(self, rank, world, dim, micro):
        self.rank = rank
        self.module = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)).cuda()
        self.link = Link(rank, world, (micro, dim))
        self.micro, self.dim = micro, dim

    def _input(self, i):
        if self.link.prev is None:
            return torch.randn(self.micro, self.dim, device="cuda")
        return self.link.claim(i)

    @torch.no_grad()
    def run(self, n):
        means = []
        self.link.post_recv(0)
        for i in range(n):
            x = self._input(i)
            if i + 1 < n:
                self.link.post_recv(i + 1)
            y = self.module(x)
            self.link.send(i, y)
            means.append(y.mean())
        self.link.finish()
        return torch.stack(means)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    out = StageRunner(rank, world, 2048, 512).run(16)
    torch.cuda.synchronize()
    if rank == world - 1:
        print(out.cpu())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
