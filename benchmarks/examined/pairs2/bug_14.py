"""Forward-only pipeline evaluation over point-to-point links."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class BoundaryChannel:
    def __init__(self, shape, device):
        self.outbox = torch.empty(shape, device=device)
        self.inbox = torch.empty(shape, device=device)
        self.requests = []

    def push(self, activation, peer):
        self.outbox.copy_(activation)
        self.requests.append(dist.isend(self.outbox, peer))

    def pull(self, peer):
        request = dist.irecv(self.inbox, peer)
        request.wait()
        return self.inbox

    def flush(self):
        for request in self.requests:
            request.wait()
        self.requests.clear()


class Evaluator:
    def __init__(self, rank, world, device, width=2048, micro=16):
        self.rank, self.world = rank, world
        self.block = nn.Sequential(nn.Linear(width, width), nn.Tanh()).to(device)
        self.channel = BoundaryChannel((micro, width), device)

    @torch.no_grad()
    def evaluate(self, microbatches):
        scores = []
        for hidden in microbatches:
            if self.rank > 0:
                hidden = self.channel.pull(self.rank - 1)
            hidden = self.block(hidden)
            if self.rank + 1 < self.world:
                self.channel.push(hidden, self.rank + 1)
            else:
                scores.append(hidden.norm())
        self.channel.flush()
        return scores


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    evaluator = Evaluator(dist.get_rank(), dist.get_world_size(), device)
    for _ in range(5):
        data = [torch.randn(16, 2048, device=device) for _ in range(12)]
        scores = evaluator.evaluate(data)
        if scores:
            print(sum(s.item() for s in scores))


main()
