import os
from collections import deque

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedStack:
    """Linear layers kept as one flat shard per rank, gathered just before use."""

    def __init__(self, width, depth, device, inflight=2):
        self.width = width
        self.depth = depth
        self.device = device
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.inflight = inflight
        self.gather = torch.cuda.Stream(device)
        per_rank = width * width // self.world
        gen = torch.Generator(device=device).manual_seed(7 + self.rank)
        self.shards = [torch.randn(per_rank, device=device, generator=gen) / width ** 0.5
                       for _ in range(depth)]

    def _unshard(self, index, limiter):
        if len(limiter) >= self.inflight:
            limiter.popleft().synchronize()
        with torch.cuda.stream(self.gather):
            full = torch.empty(self.width * self.width, device=self.device)
            dist.all_gather_into_tensor(full, self.shards[index])
            ready = self.gather.record_event()
        return full, ready

    @torch.no_grad()
    def forward(self, x):
        compute = torch.cuda.current_stream(self.device)
        self.gather.wait_stream(compute)
        limiter = deque()
        try:
            ahead = self._unshard(0, limiter)
            for index in range(self.depth):
                full, ready = ahead
                if index + 1 < self.depth:
                    ahead = self._unshard(index + 1, limiter)
                compute.wait_event(ready)
                full.record_stream(compute)
                x = F.relu(F.linear(x, full.view(self.width, self.width)))
                del full
                limiter.append(compute.record_event())
        finally:
            compute.wait_stream(self.gather)
        return x

    @torch.no_grad()
    def scale_(self, factor):
        torch._foreach_mul_(self.shards, factor)

    @torch.no_grad()
    def load_(self, flat_layers):
        per_rank = self.shards[0].numel()
        for shard, flat in zip(self.shards, flat_layers):
            shard.copy_(flat[self.rank * per_rank:(self.rank + 1) * per_rank])


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    device = torch.device("cuda", torch.cuda.current_device())
    stack = ShardedStack(512, 10, device)
    x = torch.ones(32, 512, device=device)
    first = stack.forward(x).sum()
    stack.scale_(0.5)
    second = stack.forward(x).sum()
    stack.load_([torch.eye(512).flatten() for _ in range(10)])
    third = stack.forward(x).sum()
    if dist.get_rank() == 0:
        print(first.item(), second.item(), third.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
