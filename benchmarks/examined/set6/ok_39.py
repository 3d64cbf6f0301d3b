from typing import Dict, List

import torch
import torch.distributed as dist
from torch import nn


class Chunk:
    """One layer's parameters: a pinned host shard, a device shard and the gathered buffer."""

    def __init__(self, layer: nn.Linear, group):
        self.layer = layer
        self.group = group
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        flat = torch.cat([p.detach().flatten() for p in layer.parameters()])
        self.numel = flat.numel()
        padded = -(-self.numel // world) * world
        flat = torch.nn.functional.pad(flat, (0, padded - self.numel))
        self.cpu_shard = flat.chunk(world)[rank].cpu().pin_memory()
        self.cuda_shard = torch.empty_like(self.cpu_shard, device="cuda")
        self.cuda_global = torch.empty(padded, dtype=flat.dtype, device="cuda")
        offset = 0
        for p in layer.parameters():
            p.data = self.cuda_global[offset : offset + p.numel()].view_as(p)
            offset += p.numel()

    def access(self, prefetch_stream: torch.cuda.Stream) -> dist.Work:
        prefetch_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(prefetch_stream):
            self.cuda_shard.copy_(self.cpu_shard, non_blocking=True)
            return dist.all_gather_into_tensor(
                self.cuda_global, self.cuda_shard, group=self.group, async_op=True
            )


class ChunkManager:
    def __init__(self, chunks: List[Chunk], max_prefetch: int = 1):
        self.chunks = chunks
        self.max_prefetch = max_prefetch
        self.prefetch_stream = torch.cuda.Stream()
        self.works: Dict[int, dist.Work] = {}
        self.prefetch_stream.wait_stream(torch.cuda.current_stream())

    def prefetch(self, index: int) -> None:
        for i in range(index, min(index + self.max_prefetch + 1, len(self.chunks))):
            if i not in self.works:
                self.works[i] = self.chunks[i].access(self.prefetch_stream)

    def wait(self, index: int) -> None:
        self.works[index].wait()

    def reset(self) -> None:
        self.works.clear()


class GeminiHook:
    def __init__(self, manager: ChunkManager, index: int):
        self.manager = manager
        self.index = index

    def pre_forward(self, module, args):
        self.manager.prefetch(self.index)
        self.manager.wait(self.index)


class GeminiStack(nn.Module):
    def __init__(self, layers: List[nn.Linear], group=None, max_prefetch: int = 1):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.manager = ChunkManager([Chunk(layer, group) for layer in layers], max_prefetch)
        for i, layer in enumerate(self.layers):
            layer.register_forward_pre_hook(GeminiHook(self.manager, i).pre_forward)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        self.manager.reset()
        return x
