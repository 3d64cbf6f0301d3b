"""FSDP unit: parameters are gathered and released on the all-gather stream."""
import torch
import torch.distributed as dist
from torch import nn


class FsdpUnit(nn.Module):
    """Owns one flat shard; the unsharded storage exists only around forward."""

    def __init__(self, module, group, ag_stream):
        super().__init__()
        self.module = module
        self.group = group
        self.ag_stream = ag_stream
        self.world = dist.get_world_size(group)
        params = [(m, n, p) for m in module.modules() for n, p in m._parameters.items() if p is not None]
        self.layout = [(m, n, p.shape, p.numel()) for m, n, p in params]
        flat = torch.cat([p.detach().reshape(-1) for _, _, p in params])
        pad = (-flat.numel()) % self.world
        flat = torch.nn.functional.pad(flat, (0, pad))
        self.total = flat.numel()
        self.shard = flat.chunk(self.world)[dist.get_rank(group)].clone()
        for m, n, _, _ in self.layout:
            del m._parameters[n]
        self._full = None
        self._gathered = None
        self._consumed = None

    def unshard(self):
        """Start gathering; the consumer waits in wait_unsharded()."""
        if self._full is not None:
            return
        with torch.cuda.stream(self.ag_stream):
            self._full = torch.empty(self.total, dtype=self.shard.dtype, device=self.shard.device)
            dist.all_gather_into_tensor(self._full, self.shard, group=self.group)
            self._gathered = torch.cuda.Event()
            self._gathered.record()

    def wait_unsharded(self):
        torch.cuda.current_stream().wait_event(self._gathered)
        offset = 0
        for m, n, shape, numel in self.layout:
            setattr(m, n, self._full[offset : offset + numel].view(shape))
            offset += numel

    def release_after_compute(self):
        """Drop the unsharded storage of this unit."""
        self._consumed = torch.cuda.Event()
        self._consumed.record(torch.cuda.current_stream())
        with torch.cuda.stream(self.ag_stream):
            self.ag_stream.wait_event(self._consumed)
            for m, n, _, _ in self.layout:
                delattr(m, n)
            self._full = None

    def forward(self, x):
        self.wait_unsharded()
        out = self.module(x)
        self.release_after_compute()
        return out


class ShardedStack(nn.Module):
    def __init__(self, blocks, group=None):
        super().__init__()
        group = group or dist.group.WORLD
        ag_stream = torch.cuda.Stream(priority=-1)
        self.units = nn.ModuleList(FsdpUnit(b, group, ag_stream) for b in blocks)
        ag_stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def forward(self, x):
        self.units[0].unshard()
        for i, unit in enumerate(self.units):
            if i + 1 < len(self.units):
                self.units[i + 1].unshard()
            x = unit(x)
        return x


def evaluate(stack, batches):
    device = torch.device("cuda", torch.cuda.current_device())
    total = torch.zeros((), device=device)
    for x in batches:
        total += stack(x.to(device, non_blocking=True)).float().pow(2).mean()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main(width=2048, depth=24):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
              for _ in range(depth)]
    stack = ShardedStack(blocks)
    print(evaluate(stack, (torch.randn(64, width).pin_memory() for _ in range(50))))
