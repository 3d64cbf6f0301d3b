import os

import torch
import torch.distributed as dist


class P2PChannel:
    """Double-buffered activations to the next pipeline rank."""

    def __init__(self, shape, peer, depth=2):
        self.peer = peer
        self.buffers = [torch.empty(shape, device="cuda") for _ in range(depth)]
        self.works = [None] * depth
        self.count = 0

    def send(self, tensor):
        i = self.count % len(self.buffers)
        if self.works[i] is not None:
            self.works[i].wait()
        self.buffers[i].copy_(tensor)
        self.works[i] = dist.isend(self.buffers[i], self.peer)
        self.count += 1

    def recv(self):
        i = self.count % len(self.buffers)
        work = dist.irecv(self.buffers[i], self.peer)
        work.wait()
        self.count += 1
        return self.buffers[i]

    def drain(self):
        for work in self.works:
            if work is not None:
                work.wait()


def run_stage(rank, world, steps, shape=(64, 2048)):
    weight = torch.randn(shape[1], shape[1], device="cuda") / shape[1] ** 0.5
    inbound = P2PChannel(shape, rank - 1) if rank > 0 else None
    outbound = P2PChannel(shape, rank + 1) if rank + 1 < world else None
    total = torch.zeros((), device="cuda")
    for step in range(steps):
        x = inbound.recv() if inbound else torch.full(shape, float(step), device="cuda")
        y = torch.tanh(x @ weight)
        if outbound:
            outbound.send(y)
        else:
            total += y.mean()
    if outbound:
        outbound.drain()
    return total.item()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    value = run_stage(dist.get_rank(), dist.get_world_size(), steps=32)
    print(dist.get_rank(), value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
