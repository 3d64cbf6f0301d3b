"""Gradient reduction through a fixed pool of bucket buffers."""
from collections import deque
from typing import Deque, Dict, List, Tuple

import torch
import torch.distributed as dist
import torch.nn as nn


class FixedBucketPool:
    def __init__(self, numel: int, count: int, device: torch.device):
        self.free: Deque[torch.Tensor] = deque(
            torch.zeros(numel, dtype=torch.float32, device=device) for _ in range(count))

    def take(self) -> torch.Tensor:
        return self.free.popleft()

    def give(self, bucket: torch.Tensor) -> None:
        self.free.append(bucket)

    def empty(self) -> bool:
        return not self.free


class GradReducePipeline:
    def __init__(self, units: List[nn.Module], group: dist.ProcessGroup):
        self.group = group
        self.world = dist.get_world_size(group)
        self.units = units
        self.rs_stream = torch.cuda.Stream()
        pad = self.world
        self.numel = max(-(-sum(p.numel() for p in u.parameters()) // pad) * pad for u in units)
        device = next(units[0].parameters()).device
        self.pool = FixedBucketPool(self.numel, count=2, device=device)
        self.inflight: Deque[Tuple[torch.Tensor, torch.cuda.Event]] = deque()
        self.shards: Dict[int, torch.Tensor] = {
            i: torch.zeros(self.numel // self.world, device=device) for i in range(len(units))}

    def wait_for_previous_reduce(self) -> None:
        """Returns the oldest bucket to the pool."""
        bucket, done = self.inflight.popleft()
        with torch.cuda.stream(self.rs_stream):
            torch.cuda.current_stream().wait_event(done)
            self.pool.give(bucket)

    def fetch_bucket(self) -> torch.Tensor:
        if self.pool.empty():
            self.wait_for_previous_reduce()
        bucket = self.pool.take()
        bucket.zero_()
        return bucket

    @torch.no_grad()
    def reduce_unit(self, index: int) -> None:
        bucket = self.fetch_bucket()
        offset = 0
        for p in self.units[index].parameters():
            bucket[offset:offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()
            p.grad = None
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            bucket.div_(self.world)
            dist.reduce_scatter_tensor(self.shards[index], bucket, group=self.group)
            done = torch.cuda.Event()
            done.record()
        self.inflight.append((bucket, done))

    def finish(self) -> None:
        while self.inflight:
            self.wait_for_previous_reduce()
        torch.cuda.current_stream().wait_stream(self.rs_stream)


class Net(nn.Module):
    def __init__(self, hidden: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def train_step(net: Net, pipeline: GradReducePipeline, x: torch.Tensor) -> None:
    net(x).square().mean().backward()
    for index in reversed(range(len(net.layers))):
        pipeline.reduce_unit(index)
    pipeline.finish()


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = Net(hidden=4096, depth=8).cuda()
    pipeline = GradReducePipeline(list(net.layers), dist.group.WORLD)
    for _ in range(10):
        train_step(net, pipeline, torch.randn(32, 4096, device="cuda"))
    print(sum(s.norm() for s in pipeline.shards.values()).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
