"""Layer-wise weight gathering for sharded inference, with a FIFO of retired full weights."""
import os
from collections import deque

import torch
import torch.distributed as dist
from torch.nn import functional as F


class ShardedStack:
    def __init__(self, layers, dim, group=None):
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.group = group
        self.dim = dim
        rows = dim // self.world
        self.shards = [
            torch.randn(rows, dim, device="cuda") / dim**0.5 for _ in range(layers)
        ]
        self.gather_stream = torch.cuda.Stream()
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        self.retired = deque()

    def _drop_retired(self, keep):
        while len(self.retired) > keep:
            full, used = self.retired.popleft()
            self.gather_stream.wait_event(used)
            del full

    def _unshard(self, index):
        self._drop_retired(keep=1)
        with torch.cuda.stream(self.gather_stream):
            full = torch.empty(self.dim, self.dim, device="cuda")
            dist.all_gather_into_tensor(full, self.shards[index], group=self.group)
            ready = torch.cuda.Event()
            ready.record()
        return full, ready

    @torch.no_grad()
    def forward(self, x):
        compute = torch.cuda.current_stream()
        upcoming = self._unshard(0)
        for i in range(len(self.shards)):
            full, ready = upcoming
            if i + 1 < len(self.shards):
                upcoming = self._unshard(i + 1)
            compute.wait_event(ready)
            x = F.gelu(F.linear(x, full)) + x
            self.retired.append((full, compute.record_event()))
        return x

    __call__ = forward


def main():
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    stack = ShardedStack(layers=24, dim=4096)
    for step in range(10):
        torch.manual_seed(step)
        x = torch.randn(32, 4096, device="cuda")
        y = stack(x)
        print(stack.rank, step, y.abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
