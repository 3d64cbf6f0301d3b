import torch
import torch.distributed as dist
from torch import nn


class RowParallelOverlap(nn.Module):
    """Splits the rows of the product so that reductions hide behind the next chunk."""

    def __init__(self, in_dim: int, out_dim: int, chunks: int = 4):
        super().__init__()
        self.chunks = chunks
        self.weight = nn.Parameter(torch.randn(in_dim // dist.get_world_size(), out_dim, device="cuda") * in_dim ** -0.5)
        self.bias = nn.Parameter(torch.zeros(out_dim, device="cuda"))

    def forward(self, x):
        out = x.new_empty(x.shape[0], self.weight.shape[1])
        handles = []
        for xs, os in zip(x.chunk(self.chunks), out.chunk(self.chunks)):
            torch.mm(xs, self.weight, out=os)
            handles.append((dist.all_reduce(os, async_op=True), os))
        for work, piece in handles:
            work.wait()
            piece.add_(self.bias)
        return out


class ColumnParallel(nn.Module):
    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_dim, out_dim // dist.get_world_size(), device="cuda") * in_dim ** -0.5)

    def forward(self, x):
        return torch.nn.functional.gelu(x @ self.weight)


class ParallelMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = ColumnParallel(dim, hidden)
        self.down = RowParallelOverlap(hidden, dim)
        self.norm = nn.LayerNorm(dim, device="cuda")

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)))


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(1)
    net = nn.Sequential(*[ParallelMLP(1024, 4096) for _ in range(6)])
    x = torch.randn(2048, 1024, device="cuda")
    for _ in range(5):
        y = net(x)
    print(dist.get_rank(), y.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
