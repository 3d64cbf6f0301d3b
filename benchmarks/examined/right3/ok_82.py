"""Rate-limited unsharding: the host waits for an older layer to be freed."""
import collections
from typing import Optional

import torch
import torch.distributed as dist
from torch import nn


class FreeEventQueue:
    def __init__(self, max_inflight: int = 2):
        self._queue: collections.deque[torch.cuda.Event] = collections.deque()
        self._max_inflight = max_inflight

    def enqueue(self, event: torch.cuda.Event) -> None:
        self._queue.append(event)

    def dequeue_if_needed(self) -> Optional[torch.cuda.Event]:
        if len(self._queue) >= self._max_inflight:
            return self._queue.popleft()
        return None


class UnshardHandle:
    def __init__(self, module: nn.Linear, stream: torch.cuda.Stream, limiter: FreeEventQueue):
        self.module, self.stream, self.limiter = module, stream, limiter
        flat = module.weight.detach().reshape(-1)
        self.shard = flat.chunk(dist.get_world_size())[dist.get_rank()].clone()
        self.shape = module.weight.shape
        self.module.weight.data = torch.empty(0, device=flat.device)
        self.ready: Optional[torch.cuda.Event] = None

    def unshard(self) -> None:
        event = self.limiter.dequeue_if_needed()
        if event is not None:
            event.synchronize()
        with torch.cuda.stream(self.stream):
            full = torch.empty(self.shape.numel(), device=self.shard.device)
            dist.all_gather_into_tensor(full, self.shard)
            self.ready = self.stream.record_event()
        self.module.weight.data = full.view(self.shape)

    def wait_unshard(self) -> None:
        torch.cuda.current_stream().wait_event(self.ready)

    def reshard(self) -> None:
        compute = torch.cuda.current_stream()
        self.module.weight.data.record_stream(compute)
        self.module.weight.data = torch.empty(0, device=self.shard.device)
        self.limiter.enqueue(compute.record_event())


class ShardedStack(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth)).cuda()
        self.stream = torch.cuda.Stream()
        limiter = FreeEventQueue()
        self.handles = [UnshardHandle(layer, self.stream, limiter) for layer in self.layers]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        self.handles[0].unshard()
        for i, (layer, handle) in enumerate(zip(self.layers, self.handles)):
            handle.wait_unshard()
            if i + 1 < len(self.handles):
                self.handles[i + 1].unshard()
            x = torch.relu(layer(x))
            handle.reshard()
        return x


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = ShardedStack(1024, 8)
    for _ in range(10):
        y = model(torch.randn(16, 1024, device="cuda"))
    print(dist.get_rank(), y.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
