import torch
import torch.distributed as dist
import torch.nn as nn


class ParamBucket:
    def __init__(self, module: nn.Module, group):
        self.module = module
        self.params = list(module.parameters())
        world = dist.get_world_size(group)
        total = sum(p.numel() for p in self.params)
        padded = (total + world - 1) // world * world
        ref = self.params[0]
        self.full = torch.zeros(padded, dtype=ref.dtype, device=ref.device)
        self.shard = torch.zeros(padded // world, dtype=ref.dtype, device=ref.device)
        offset = 0
        for p in self.params:
            view = self.full[offset : offset + p.numel()].view_as(p)
            view.copy_(p.data)
            p.data = view
            offset += p.numel()
        rank = dist.get_rank(group)
        self.shard.copy_(self.full.view(world, -1)[rank])


class OverlappedParamGather:
    """Gathers updated parameter shards while the first layers already run."""

    def __init__(self, modules, group=None):
        self.group = group or dist.group.WORLD
        self.buckets = [ParamBucket(m, self.group) for m in modules]
        self.works = []
        self.cursor = 0
        for bucket in self.buckets:
            bucket.module.register_forward_pre_hook(self._pre_forward)

    def start(self) -> None:
        self.cursor = 0
        self.works = [
            dist.all_gather_into_tensor(
                bucket.full, bucket.shard, group=self.group, async_op=True
            )
            for bucket in self.buckets
        ]

    def _pre_forward(self, module, args):
        if self.cursor < len(self.works):
            self.works[self.cursor].wait()
            self.cursor += 1


class Net(nn.Module):
    def __init__(self, dim=2048):
        super().__init__()
        self.stem = nn.Linear(dim, dim)
        self.middle = nn.Linear(dim, dim)
        self.head_norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, dim)

    def forward(self, x):
        x = self.stem(x)
        x = self.head_norm(x)
        x = torch.relu(self.middle(x))
        return self.head(x)


def train(steps=10, lr=1e-3):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = Net().cuda()
    gather = OverlappedParamGather([net.stem, net.middle, net.head_norm, net.head])
    for _ in range(steps):
        gather.start()
        loss = net(torch.randn(64, 2048, device="cuda")).square().mean()
        loss.backward()
        with torch.no_grad():
            for bucket in gather.buckets:
                flat = torch.cat([p.grad.reshape(-1) for p in bucket.params])
                flat = nn.functional.pad(flat, (0, bucket.full.numel() - flat.numel()))
                grad = torch.empty_like(bucket.shard)
                dist.reduce_scatter_tensor(grad, flat, group=gather.group)
                bucket.shard.add_(grad, alpha=-lr)
        net.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
