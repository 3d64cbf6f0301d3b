"""Forward-only pipeline stage with double-buffered NCCL point-to-point transfers."""
import os

import torch
import torch.distributed as dist
from torch import nn


class PipelineStage:
    def __init__(self, module, rank, world, shape):
        self.module = module
        self.prev = rank - 1 if rank > 0 else None
        self.next = rank + 1 if rank + 1 < world else None
        self.inbox = [torch.empty(shape, device="cuda") for _ in range(2)]
        self.outbox = [torch.empty(shape, device="cuda") for _ in range(2)]
        self.recv_work = [None, None]
        self.send_work = [None, None]

    def post_recv(self, i):
        if self.prev is not None:
            self.recv_work[i % 2] = dist.irecv(self.inbox[i % 2], src=self.prev)

    def take(self, i, source):
        if self.prev is None:
            return source()
        self.recv_work[i % 2].wait()
        return self.inbox[i % 2]

    def deliver(self, i, y):
        if self.next is None:
            return y.square().mean()
        slot = i % 2
        if self.send_work[slot] is not None:
            self.send_work[slot].wait()
        self.outbox[slot].copy_(y)
        self.send_work[slot] = dist.isend(self.outbox[slot], dst=self.next)
        return None

    def run(self, n_micro, source):
        losses = []
        self.post_recv(0)
        for i in range(n_micro):
            x = self.take(i, source)
            if i + 1 < n_micro:
                self.post_recv(i + 1)
            out = self.deliver(i, self.module(x))
            if out is not None:
                losses.append(out)
        for work in self.send_work:
            if work is not None:
                work.wait()
        self.send_work = [None, None]
        return losses


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    shape = (32, 2048)
    module = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    stage = PipelineStage(module, rank, world, shape)
    for _ in range(10):
        losses = stage.run(16, lambda: torch.randn(shape, device="cuda"))
        if losses:
            print(torch.stack(losses).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
