"""Functional collectives used as ordinary tensors."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


class TPPair(nn.Module):
    def __init__(self, dim: int, hidden: int, group):
        super().__init__()
        self.group = group
        world = dist.get_world_size(group)
        self.up = nn.Linear(dim, hidden // world, bias=False)
        self.down = nn.Linear(hidden // world, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        partial = self.down(torch.relu(self.up(x)))
        reduced = funcol.all_reduce(partial, "sum", self.group)
        skip = self.norm(x)
        return skip + reduced


class Stats:
    def __init__(self, group):
        self.group = group
        self.pending = []

    def note(self, x):
        self.pending.append(funcol.all_reduce(x.abs().mean(), "avg", self.group))

    def flush(self) -> list:
        values = torch.stack([funcol.wait_tensor(t) for t in self.pending])
        self.pending = []
        return values.tolist()


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    group = dist.group.WORLD
    blocks = nn.ModuleList(TPPair(256, 1024, group) for _ in range(4)).cuda()
    stats = Stats(group)
    x = torch.ones(16, 256, device="cuda")
    for block in blocks:
        x = block(x)
        stats.note(x)
    print(stats.flush())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
