"""Forward pass over sharded linear layers with two all-gathers in flight."""
from collections import deque

import torch
import torch.distributed as dist
import torch.nn.functional as F


class FlatShard:
    def __init__(self, rows: int, cols: int, world: int, device: torch.device):
        self.rows, self.cols = rows, cols
        self.local = torch.randn(rows * cols // world, device=device) * 0.02


class UnshardQueue:
    def __init__(self, group, depth: int = 2):
        self.group = group
        self.depth = depth
        self.unshard_stream = torch.cuda.Stream()
        self._stash: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def root_pre_forward(self) -> None:
        self.unshard_stream.wait_stream(torch.cuda.current_stream())

    def unshard(self, shard: FlatShard) -> tuple[torch.Tensor, torch.cuda.Event]:
        if len(self._stash) >= self.depth:
            self._release_oldest()
        with torch.cuda.stream(self.unshard_stream):
            full = torch.empty(shard.rows * shard.cols, device=shard.local.device)
            dist.all_gather_into_tensor(full, shard.local, group=self.group)
            gathered = self.unshard_stream.record_event()
        return full, gathered

    def reshard(self, full: torch.Tensor) -> None:
        self._stash.append((full, torch.cuda.current_stream().record_event()))

    def _release_oldest(self) -> None:
        full, free_event = self._stash.popleft()
        self.unshard_stream.wait_event(free_event)
        del full

    def root_post_forward(self) -> None:
        while self._stash:
            self._release_oldest()


class ShardedMLP:
    def __init__(self, dims: list[int], group, device: torch.device):
        world = dist.get_world_size(group)
        self.queue = UnshardQueue(group)
        self.shards = [FlatShard(o, i, world, device) for i, o in zip(dims, dims[1:])]

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.queue.root_pre_forward()
        pending = self.queue.unshard(self.shards[0])
        for i, shard in enumerate(self.shards):
            full, gathered = pending
            pending = self.queue.unshard(self.shards[i + 1]) if i + 1 < len(self.shards) else None
            torch.cuda.current_stream().wait_event(gathered)
            x = torch.relu(F.linear(x, full.view(shard.rows, shard.cols)))
            self.queue.reshard(full)
        self.queue.root_post_forward()
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device())
    mlp = ShardedMLP([1024, 4096, 4096, 4096, 1024], dist.group.WORLD, device)
    for _ in range(10):
        out = mlp.forward(torch.randn(32, 1024, device=device))
    print(out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
