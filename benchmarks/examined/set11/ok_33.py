"""Rate-limited all-gathers: two ping-pong buffers, ordered by events instead of host synchronization."""
from typing import List, Optional

import torch
import torch.distributed as dist
from torch import nn


class _GatherBuffer:
    def __init__(self, numel: int, dtype: torch.dtype, device: torch.device):
        self.data = torch.empty(numel, dtype=dtype, device=device)
        self.gathered = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class FlatUnit:
    """A layer whose parameters live in one shard; forward views into a gathered buffer."""

    def __init__(self, layer: nn.Module, group: dist.ProcessGroup):
        self.layer = layer
        self.params = list(layer.parameters())
        self.shapes = [p.shape for p in self.params]
        flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        pad = (-flat.numel()) % group.size()
        flat = torch.nn.functional.pad(flat, (0, pad))
        self.shard = flat.chunk(group.size())[group.rank()].clone()
        self.numel = flat.numel()

    def use(self, flat: torch.Tensor) -> None:
        offset = 0
        for p, shape in zip(self.params, self.shapes):
            p.data = flat[offset : offset + shape.numel()].view(shape)
            offset += shape.numel()


class PingPongSharded(nn.Module):
    def __init__(self, layers: List[nn.Module], group: dist.ProcessGroup, device: torch.device):
        super().__init__()
        self.group = group
        self.units = [FlatUnit(layer.to(device), group) for layer in layers]
        numel = max(u.numel for u in self.units)
        self.buffers = [_GatherBuffer(numel, self.units[0].shard.dtype, device) for _ in range(2)]
        self.gather_stream = torch.cuda.Stream(device)
        self.gather_stream.wait_stream(torch.cuda.current_stream(device))

    def _prefetch(self, index: int) -> None:
        unit, buffer = self.units[index], self.buffers[index % 2]
        # no wait on the host: the stream holds the gather back until the layer before the last is done
        self.gather_stream.wait_event(buffer.consumed)
        with torch.cuda.stream(self.gather_stream):
            dist.all_gather_into_tensor(buffer.data[: unit.numel], unit.shard, group=self.group)
            buffer.gathered.record(self.gather_stream)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        self._prefetch(0)
        for index, unit in enumerate(self.units):
            if index + 1 < len(self.units):
                self._prefetch(index + 1)
            buffer = self.buffers[index % 2]
            current.wait_event(buffer.gathered)
            unit.use(buffer.data[: unit.numel])
            x = unit.layer(x)
            buffer.consumed.record(current)
        return x


def evaluate(model: PingPongSharded, batches, loss_fn, limit: Optional[int] = None) -> float:
    total = torch.zeros((), device=batches[0][0].device)
    for x, y in batches[:limit]:
        total += loss_fn(model(x), y)
    return total.item() / len(batches[:limit])
