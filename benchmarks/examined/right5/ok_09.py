import collections
from typing import Deque, Dict, Optional

import torch
import torch.distributed as dist
from torch import nn


class FreeEventQueue:
    """Bounds how many unsharded buffers may be in flight."""

    def __init__(self, limit: int = 2):
        self._queue: Deque[torch.cuda.Event] = collections.deque()
        self._limit = limit

    def enqueue(self, event: torch.cuda.Event) -> None:
        self._queue.append(event)

    def dequeue_if_needed(self) -> Optional[torch.cuda.Event]:
        if len(self._queue) >= self._limit:
            return self._queue.popleft()
        return None


class ShardedLinear(nn.Module):
    def __init__(self, dim: int, streams: Dict[str, torch.cuda.Stream], free_queue: FreeEventQueue):
        super().__init__()
        self.dim = dim
        self.world = dist.get_world_size()
        self.shard = nn.Parameter(torch.randn(dim * dim // self.world, device="cuda") * dim ** -0.5)
        self.streams = streams
        self.free_queue = free_queue
        self._full: Optional[torch.Tensor] = None

    @torch.no_grad()
    def unshard(self) -> None:
        if self._full is not None:
            return
        event = self.free_queue.dequeue_if_needed()
        if event is not None:
            event.synchronize()
        with torch.cuda.stream(self.streams["unshard"]):
            full = torch.empty(self.dim * self.dim, device="cuda")
            dist.all_gather_into_tensor(full, self.shard.detach())
            self._full = full

    def wait_unshard(self) -> None:
        torch.cuda.current_stream().wait_stream(self.streams["unshard"])

    def reshard(self) -> None:
        full, self._full = self._full, None
        full.record_stream(torch.cuda.current_stream())
        done = torch.cuda.Event()
        done.record()
        self.free_queue.enqueue(done)

    def forward(self, x):
        self.unshard()
        self.wait_unshard()
        y = x @ self._full.view(self.dim, self.dim)
        self.reshard()
        return y


class ShardedStack(nn.Module):
    def __init__(self, depth: int, dim: int):
        super().__init__()
        self.streams = {"unshard": torch.cuda.Stream()}
        queue = FreeEventQueue()
        self.layers = nn.ModuleList(ShardedLinear(dim, self.streams, queue) for _ in range(depth))

    def forward(self, x):
        self.streams["unshard"].wait_stream(torch.cuda.current_stream())
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                layer.unshard()
                self.layers[i + 1].unshard()
            x = torch.relu(layer(x))
        return x


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = ShardedStack(8, 2048)
    for _ in range(10):
        out = model(torch.randn(32, 2048, device="cuda"))
        print(out.mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
