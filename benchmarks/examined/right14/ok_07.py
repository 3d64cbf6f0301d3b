"""Sharded inference: layer weights are gathered just in time and dropped again."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.func import functional_call


class ShardedLayer:
    def __init__(self, layer: nn.Module, group, device: torch.device) -> None:
        self.layer = layer
        self.group = group
        self.device = device
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        self.specs = [(n, p.shape, p.numel()) for n, p in layer.named_parameters()]
        flat = torch.cat([p.detach().reshape(-1) for p in layer.parameters()])
        pad = -flat.numel() % world
        flat = nn.functional.pad(flat, (0, pad))
        self.total = flat.numel()
        self.shard = flat.chunk(world)[rank].to(device)
        self.full: torch.Tensor | None = None
        self.ready: torch.cuda.Event | None = None

    def views(self) -> dict[str, torch.Tensor]:
        out, offset = {}, 0
        for name, shape, numel in self.specs:
            out[name] = self.full[offset:offset + numel].view(shape)
            offset += numel
        return out


class ShardedStack:
    def __init__(self, layers: list[nn.Module], group, device: torch.device) -> None:
        self.device = device
        self.layers = [ShardedLayer(layer, group, device) for layer in layers]
        self.gather_stream = torch.cuda.Stream(device)
        self.gather_stream.wait_stream(torch.cuda.current_stream(device))

    def _unshard(self, index: int) -> None:
        if index >= len(self.layers):
            return
        item = self.layers[index]
        if item.full is not None:
            return
        with torch.cuda.stream(self.gather_stream):
            full = torch.empty(item.total, dtype=item.shard.dtype, device=self.device)
            dist.all_gather_into_tensor(full, item.shard, group=item.group)
            item.ready = self.gather_stream.record_event()
        item.full = full

    def _reshard(self, item: ShardedLayer) -> None:
        freed = torch.cuda.current_stream(self.device).record_event()
        self.gather_stream.wait_event(freed)
        item.full = None
        item.ready = None

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self._unshard(0)
            for index, item in enumerate(self.layers):
                self._unshard(index + 1)
                torch.cuda.current_stream(self.device).wait_event(item.ready)
                weights = item.views()
                try:
                    x = functional_call(item.layer, weights, (x,))
                finally:
                    del weights
                    self._reshard(item)
        finally:
            torch.cuda.current_stream(self.device).wait_stream(self.gather_stream)
        return x


def serve(depth: int, width: int) -> None:
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(depth)]
    stack = ShardedStack(blocks, dist.group.WORLD, device)
    x = torch.randn(16, width, device=device)
    print(stack.forward(x).norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    serve(12, 2048)
