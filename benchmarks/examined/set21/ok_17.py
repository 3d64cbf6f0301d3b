from collections import deque
from typing import Deque, List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class EventQueue:
    """Bounds how many gathers the host may run ahead of the device."""

    def __init__(self, limit: int = 2):
        self.limit = limit
        self.events: Deque[torch.cuda.Event] = deque()

    def push_free_event(self) -> None:
        event = torch.cuda.Event()
        event.record()
        self.events.append(event)

    def wait_if_full(self) -> None:
        if len(self.events) >= self.limit:
            self.events.popleft().synchronize()


class FlatShardedLinear(nn.Module):
    def __init__(self, dim: int, group: dist.ProcessGroup, gather_stream: torch.cuda.Stream, queue: EventQueue):
        super().__init__()
        world = dist.get_world_size(group)
        self.dim = dim
        self.group = group
        self.gather_stream = gather_stream
        self.queue = queue
        self.shard = torch.randn(dim * dim // world, device="cuda") * 0.02
        self.full: Optional[torch.Tensor] = None
        self.gathered: Optional[torch.cuda.Event] = None

    def rebuild_full_params(self) -> None:
        if self.full is not None:
            return
        self.queue.wait_if_full()
        full = torch.empty(self.dim * self.dim, device=self.shard.device)
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.gather_stream):
            dist.all_gather_into_tensor(full, self.shard, group=self.group)
            self.gathered = self.gather_stream.record_event()
        full.record_stream(self.gather_stream)
        self.full = full

    def free_full_params(self) -> None:
        self.queue.push_free_event()
        self.full = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rebuild_full_params()
        torch.cuda.current_stream().wait_event(self.gathered)
        return torch.relu(x @ self.full.view(self.dim, self.dim))


class ShardedStack(nn.Module):
    def __init__(self, dim: int, depth: int, group: dist.ProcessGroup):
        super().__init__()
        stream = torch.cuda.Stream()
        queue = EventQueue(limit=2)
        self.layers = nn.ModuleList([FlatShardedLinear(dim, group, stream, queue) for _ in range(depth)])
        torch.cuda.synchronize()

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            layer.rebuild_full_params()
            if i + 1 < len(self.layers):
                self.layers[i + 1].rebuild_full_params()
            x = x + layer(x)
            layer.free_full_params()
        return x


def main(dim: int = 4096, depth: int = 24, iterations: int = 50) -> List[float]:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = ShardedStack(dim, depth, dist.group.WORLD)
    x = torch.randn(64, dim, device="cuda")
    means = []
    for _ in range(iterations):
        means.append(model(x).mean())
    return torch.stack(means).tolist()
