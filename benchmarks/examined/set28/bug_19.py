from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

c10d = torch.ops._c10d_functional


@dataclass(frozen=True)
class Shard:
    dim: int


@dataclass(frozen=True)
class Replicate:
    pass


@dataclass(frozen=True)
class Partial:
    reduce_op: str = "sum"


@dataclass
class MeshTensor:
    local: torch.Tensor
    placement: object
    shape: torch.Size


class Redistributor:
    """Moves tensors between placements on a one-dimensional mesh."""

    def __init__(self, group):
        self.size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.name = group.group_name

    def _pad(self, local, dim, full):
        target = (full + self.size - 1) // self.size
        missing = target - local.shape[dim]
        if missing == 0:
            return local
        pad = [0, 0] * (local.dim() - dim - 1) + [0, missing]
        return nn.functional.pad(local, pad)

    def replicate(self, t):
        dim = t.placement.dim
        local = self._pad(t.local, dim, t.shape[dim]).contiguous()
        gathered = c10d.all_gather_into_tensor(local, self.size, self.name)
        if dim != 0:
            gathered = torch.cat(torch.chunk(gathered, self.size, dim=0), dim=dim)
        return MeshTensor(gathered.narrow(dim, 0, t.shape[dim]), Replicate(), t.shape)

    def reduce(self, t):
        out = c10d.all_reduce(t.local.contiguous(), t.placement.reduce_op, self.name)
        out = c10d.wait_tensor(out)
        return MeshTensor(out, Replicate(), t.shape)

    def scatter(self, t, dim):
        piece = t.local.tensor_split(self.size, dim=dim)[self.rank].contiguous()
        return MeshTensor(piece, Shard(dim), t.shape)

    def __call__(self, t, placement):
        if t.placement == placement:
            return t
        if isinstance(t.placement, Partial):
            t = self.reduce(t)
        elif isinstance(t.placement, Shard):
            t = self.replicate(t)
        if isinstance(placement, Shard):
            t = self.scatter(t, placement.dim)
        return t


class ShardedMLP(nn.Module):
    def __init__(self, hidden, ffn, redistribute):
        super().__init__()
        kw = dict(device="cuda", dtype=torch.bfloat16)
        self.up = nn.Parameter(torch.randn(ffn // redistribute.size, hidden, **kw) * 0.02)
        self.down = nn.Parameter(torch.randn(hidden, ffn // redistribute.size, **kw) * 0.02)
        self.redistribute = redistribute

    def forward(self, x):
        full = self.redistribute(x, Replicate())
        h = nn.functional.gelu(full.local @ self.up.t())
        y = MeshTensor(h @ self.down.t(), Partial(), x.shape)
        y = self.redistribute(y, Shard(1))
        return MeshTensor(x.local + y.local, Shard(1), x.shape)


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    redistribute = Redistributor(dist.group.WORLD)
    layers = nn.ModuleList(ShardedMLP(4096, 16384, redistribute) for _ in range(16))
    x = MeshTensor(torch.randn(8, 2048, 4096, device="cuda", dtype=torch.bfloat16), Replicate(), torch.Size((8, 2048, 4096)))
    x = redistribute(x, Shard(1))
    for layer in layers:
        x = layer(x)
    print(x.local.float().std().item())


if __name__ == "__main__":
    main()
