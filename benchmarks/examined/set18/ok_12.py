"""Coalesced gather of ZeRO-3 parameters: one asynchronous all-gather per parameter."""
import torch
import torch.distributed as dist
from torch import nn


class ShardedParam:
    """The rank's slice of one parameter and the way back to the full tensor."""

    def __init__(self, owner, name, param, rank, world_size):
        self.owner = owner
        self.name = name
        self.shape = param.shape
        self.numel = param.numel()
        flat = param.detach().reshape(-1)
        flat = nn.functional.pad(flat, (0, (-self.numel) % world_size))
        self.slice = flat.chunk(world_size)[rank].clone()
        del owner._parameters[name]

    def attach(self, full):
        setattr(self.owner, self.name, full.narrow(0, 0, self.numel).view(self.shape))

    def detach(self):
        delattr(self.owner, self.name)


class GatherGroup:
    """Parameters of one module, gathered together right before it runs."""

    def __init__(self, module, process_group=None):
        self.group = process_group or dist.group.WORLD
        self.world_size = dist.get_world_size(self.group)
        rank = dist.get_rank(self.group)
        self.params = [
            ShardedParam(owner, name, param, rank, self.world_size)
            for owner in module.modules()
            for name, param in list(owner._parameters.items())
            if param is not None
        ]
        self._handles = []
        self._full = []

    def launch(self):
        self._full = [
            torch.empty(p.slice.numel() * self.world_size, dtype=p.slice.dtype, device=p.slice.device)
            for p in self.params
        ]
        self._handles = [
            dist.all_gather_into_tensor(full, p.slice, group=self.group, async_op=True)
            for full, p in zip(self._full, self.params)
        ]

    def wait(self):
        """Wait for the gathers of this group and put the full tensors in place."""
        self._handles[-1].wait()
        for p, full in zip(self.params, self._full):
            p.attach(full)

    def release(self):
        for p in self.params:
            p.detach()
        self._full = []
        self._handles = []


class Zero3Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.groups = [GatherGroup(b) for b in self.blocks]

    @torch.no_grad()
    def forward(self, x):
        self.groups[0].launch()
        for i, (block, group) in enumerate(zip(self.blocks, self.groups)):
            group.wait()
            if i + 1 < len(self.groups):
                self.groups[i + 1].launch()
            x = block(x)
            group.release()
        return x


def main(width=2048, depth=16, iters=20):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    blocks = [nn.TransformerEncoderLayer(width, 16, dropout=0.0, batch_first=True, device=device).eval()
              for _ in range(depth)]
    stack = Zero3Stack(blocks)
    x = torch.randn(2, 256, width, device=device)
    for _ in range(iters):
        y = stack(x)
    norm = y.float().norm()
    dist.all_reduce(norm)
    if dist.get_rank() == 0:
        print(norm.item() / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
