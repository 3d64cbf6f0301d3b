"""Reduce-scatter of gradients through two rotating buckets with asynchronous handles."""
from collections import deque
from typing import Deque, Dict, List, Tuple

import torch
import torch.distributed as dist
import torch.nn as nn


class BucketRing:
    def __init__(self, numel: int, count: int, device: torch.device):
        self.free: Deque[torch.Tensor] = deque(
            torch.zeros(numel, device=device) for _ in range(count))


class GradReducer:
    """Packs the gradients of a unit into a bucket and reduces them."""

    def __init__(self, units: List[nn.Module], group: dist.ProcessGroup):
        self.group = group
        self.world = dist.get_world_size(group)
        self.units = units
        sizes = [sum(p.numel() for p in u.parameters()) for u in units]
        self.numel = max(-(-s // self.world) * self.world for s in sizes)
        device = next(units[0].parameters()).device
        self.ring = BucketRing(self.numel, 2, device)
        self.inflight: Deque[Tuple[torch.Tensor, dist.Work]] = deque()
        self.shards: Dict[int, torch.Tensor] = {
            i: torch.zeros(self.numel // self.world, device=device) for i in range(len(units))}

    def _reclaim(self) -> None:
        bucket, work = self.inflight.popleft()
        work.wait()
        self.ring.free.append(bucket)

    def _fill(self, bucket: torch.Tensor, unit: nn.Module) -> None:
        bucket.zero_()
        offset = 0
        for p in unit.parameters():
            bucket[offset:offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()
            p.grad = None
        bucket.div_(self.world)

    @torch.no_grad()
    def reduce_unit(self, index: int) -> None:
        if not self.ring.free:
            self._reclaim()
        bucket = self.ring.free.popleft()
        self._fill(bucket, self.units[index])
        work = dist.reduce_scatter_tensor(
            self.shards[index], bucket, group=self.group, async_op=True)
        self.inflight.append((bucket, work))

    def finish(self) -> None:
        while self.inflight:
            self._reclaim()


class Net(nn.Module):
    def __init__(self, hidden: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def train_step(net: Net, reducer: GradReducer, x: torch.Tensor) -> torch.Tensor:
    net(x).square().mean().backward()
    for index in reversed(range(len(net.layers))):
        reducer.reduce_unit(index)
    reducer.finish()
    return torch.stack([s.square().sum() for s in reducer.shards.values()]).sum()


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = Net(hidden=4096, depth=8).cuda()
    reducer = GradReducer(list(net.layers), dist.group.WORLD)
    for _ in range(10):
        energy = train_step(net, reducer, torch.randn(32, 4096, device="cuda"))
    print(dist.get_rank(), energy.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
