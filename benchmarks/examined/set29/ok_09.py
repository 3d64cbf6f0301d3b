"""Layer-wise parameter gathering with backward prefetch on a gather stream."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


class ShardedLinear(nn.Module):
    """A linear layer whose full weight only exists around its use."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        rank, world = dist.get_rank(), dist.get_world_size()
        full = torch.randn(dim, dim, device="cuda") * dim ** -0.5
        dist.broadcast(full, src=0)
        self.dim = dim
        self.shard = full.chunk(world)[rank].clone()
        self.full: torch.Tensor | None = None
        self.saved: torch.Tensor | None = None


class GatherRuntime:
    def __init__(self, layers: list[ShardedLinear]) -> None:
        self.layers = layers
        self.gather_stream = torch.cuda.Stream(priority=-1)
        self.reduce_stream = torch.cuda.Stream(priority=-1)

    def unshard(self, layer: ShardedLinear) -> None:
        if layer.full is not None:
            return
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.gather_stream):
            layer.full = torch.empty(layer.dim, layer.dim, device=layer.shard.device)
            dist.all_gather_into_tensor(layer.full, layer.shard)

    def wait_unshard(self) -> None:
        torch.cuda.current_stream().wait_stream(self.gather_stream)

    def reshard(self, layer: ShardedLinear) -> None:
        layer.full.record_stream(torch.cuda.current_stream())
        layer.full = None

    def reduce(self, layer: ShardedLinear, grad: torch.Tensor, lr: float) -> None:
        self.reduce_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduce_stream):
            out = torch.empty_like(layer.shard)
            dist.reduce_scatter_tensor(out, grad, op=dist.ReduceOp.AVG)
            layer.shard.add_(out, alpha=-lr)
        grad.record_stream(self.reduce_stream)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            self.unshard(layer)
            self.wait_unshard()
            layer.saved = x
            x = torch.relu(x @ layer.full.T)
            self.reshard(layer)
        return x

    def backward(self, out: torch.Tensor, grad: torch.Tensor, lr: float) -> None:
        last = len(self.layers) - 1
        self.unshard(self.layers[last])
        for i in range(last, -1, -1):
            layer = self.layers[i]
            self.unshard(layer)
            self.wait_unshard()
            if i > 0:
                self.unshard(self.layers[i - 1])
            grad = grad * (out > 0)
            weight_grad = grad.T @ layer.saved
            out = layer.saved
            grad = grad @ layer.full
            layer.saved = None
            self.reshard(layer)
            self.reduce(layer, weight_grad, lr)

    def finish_step(self) -> None:
        torch.cuda.current_stream().wait_stream(self.reduce_stream)


@torch.no_grad()
def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    runtime = GatherRuntime([ShardedLinear(1024) for _ in range(6)])
    target = torch.randn(256, 1024, device="cuda").relu()
    for _ in range(10):
        out = runtime.forward(torch.randn(256, 1024, device="cuda"))
        runtime.backward(out, (out - target) / out.numel(), lr=1e-2)
        runtime.finish_step()
    print((out - target).square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
