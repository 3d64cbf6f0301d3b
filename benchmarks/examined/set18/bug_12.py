"""ZeRO-2 for adapters: every gradient is reduced to its owner, owners step and broadcast."""
import torch
import torch.distributed as dist
from torch import nn


def assign_owners(param_groups, world_size):
    """Greedy balance by number of elements; returns {param: owner rank}."""
    loads = [0] * world_size
    owners = {}
    params = [p for group in param_groups for p in group["params"]]
    for p in sorted(params, key=lambda p: p.numel(), reverse=True):
        rank = loads.index(min(loads))
        owners[p] = rank
        loads[rank] += p.numel()
    return owners


def setup_grad_reduction(owners, rank, world_size):
    """Reduce each gradient towards its owner as soon as autograd has accumulated it."""

    def make_hook(owner_rank):
        def hook(param):
            param.grad.div_(world_size)
            dist.reduce(param.grad, dst=owner_rank, op=dist.ReduceOp.SUM, async_op=True)

        return hook

    return [p.register_post_accumulate_grad_hook(make_hook(r)) for p, r in owners.items()]


class BroadcastingOptimizer:
    """Steps only the owned parameters, then sends them to the other ranks."""

    def __init__(self, optimizer_cls, params, max_norm=None, **kwargs):
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        params = [p for p in params if p.requires_grad]
        self.owners = assign_owners([{"params": params}], self.world_size)
        self.params = params
        self.owned = [p for p in params if self.owners[p] == self.rank]
        self.optimizer = optimizer_cls(self.owned, **kwargs)
        self.max_norm = max_norm
        self.handles = setup_grad_reduction(self.owners, self.rank, self.world_size)

    @torch.no_grad()
    def step(self):
        if self.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.owned, self.max_norm, foreach=True)
        self.optimizer.step()
        for p in self.params:
            dist.broadcast(p.data, src=self.owners[p])

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class LoRALinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features, device="cuda") * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device="cuda"))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def build(width, depth, rank):
    torch.manual_seed(0)
    return nn.Sequential(*[
        nn.Sequential(LoRALinear(nn.Linear(width, width).cuda(), rank), nn.SiLU()) for _ in range(depth)
    ])


def main(width=3072, depth=32, rank=64, steps=500):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = build(width, depth, rank)
    optimizer = BroadcastingOptimizer(torch.optim.AdamW, model.parameters(), max_norm=1.0, lr=1e-4)
    generator = torch.Generator(device="cuda").manual_seed(dist.get_rank())
    for step in range(steps):
        x = torch.randn(16, width, device="cuda", generator=generator)
        loss = (model(x) - x.roll(1, dims=1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
