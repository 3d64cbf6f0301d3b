"""Tensor-parallel decoding step: cache shards are gathered while the query is made."""
import torch
import torch.distributed as dist
import torch.nn as nn


class ShardExchange:
    def __init__(self, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.items = []

    def start(self, **tensors):
        for name, local in tensors.items():
            local = local.contiguous()
            full = local.new_empty((self.world,) + tuple(local.shape))
            work = dist.all_gather_into_tensor(
                full.view(-1, *local.shape[1:]), local, group=self.group, async_op=True
            )
            self.items.append((name, local, full, work))

    def finish(self):
        if not self.items:
            return {}
        self.items[-1][3].wait()
        out = {name: full for name, _, full, _ in self.items}
        self.items.clear()
        return out


class ShardedMemory(nn.Module):
    """Every rank owns a slice of the memory rows."""

    def __init__(self, dim, key_dim, rows, group):
        super().__init__()
        self.exchange = ShardExchange(group)
        self.keys = nn.Linear(dim, key_dim, bias=False)
        self.values = nn.Linear(dim, dim, bias=False)
        self.query = nn.Linear(dim, key_dim, bias=False)
        self.register_buffer("memory", torch.randn(rows, dim) * 0.02)
        self.scale = key_dim**-0.5

    @torch.inference_mode()
    def forward(self, x):
        keys = self.keys(self.memory)
        values = self.values(self.memory)
        bound = keys.norm(dim=-1, keepdim=True)
        self.exchange.start(keys=keys, values=values, bound=bound)
        q = self.query(x)
        full = self.exchange.finish()
        k = full["keys"].flatten(0, 1)
        v = full["values"].flatten(0, 1)
        limit = full["bound"].flatten()
        score = (q @ k.t()) * self.scale
        score = torch.minimum(score, limit * q.norm(dim=-1, keepdim=True))
        return x + score.softmax(-1) @ v


class Stack(nn.Module):
    def __init__(self, depth, dim, key_dim, rows, group):
        super().__init__()
        self.layers = nn.ModuleList(ShardedMemory(dim, key_dim, rows, group) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def serve(requests, depth=12, dim=1024, key_dim=128, rows=2048):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    group = dist.new_group(list(range(dist.get_world_size())))
    model = Stack(depth, dim, key_dim, rows, group).cuda().half()
    outs = [model(r.cuda().half()).float().mean(-1).cpu() for r in requests]
    dist.destroy_process_group()
    return outs
