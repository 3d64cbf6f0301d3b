"""Sharded parameters gathered one layer ahead into two alternating flat buffers."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedLinear:
    def __init__(self, dim: int, world: int, rank: int):
        full = torch.randn(dim, dim, device="cuda") * dim ** -0.5
        dist.broadcast(full, 0)
        self.dim = dim
        self.shard = full.view(world, -1)[rank].clone()


class Gatherer:
    def __init__(self, layers):
        self.layers = layers
        n = layers[0].dim ** 2
        self.buffers = [torch.empty(n, device="cuda") for _ in range(2)]
        self.pending: dict[int, tuple[dist.Work, torch.Tensor]] = {}

    def prefetch(self, i: int) -> None:
        if i < len(self.layers) and i not in self.pending:
            out = self.buffers[i % 2]
            work = dist.all_gather_into_tensor(out, self.layers[i].shard, async_op=True)
            self.pending[i] = (work, out)

    def weight(self, i: int) -> torch.Tensor:
        self.prefetch(i)
        work, flat = self.pending.pop(i)
        work.wait()
        d = self.layers[i].dim
        return flat.view(d, d)


@torch.no_grad()
def forward(layers, gatherer, x):
    for i in range(len(layers)):
        w = gatherer.weight(i)
        gatherer.prefetch(i + 1)
        x = torch.tanh(F.linear(x, w))
    return x


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    world, rank = dist.get_world_size(), dist.get_rank()
    layers = [ShardedLinear(1024, world, rank) for _ in range(12)]
    gatherer = Gatherer(layers)
    x = torch.randn(32, 1024, device="cuda")
    for _ in range(5):
        x = forward(layers, gatherer, x)
    if rank == 0:
        print(x.square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
