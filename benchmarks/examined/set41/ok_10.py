"""Sharded Adam: reductions issued from a side stream during backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Shard:
    def __init__(self, param, rank, world):
        numel = param.numel()
        self.pad = (-numel) % world
        self.part = (numel + self.pad) // world
        self.flat = torch.zeros(numel + self.pad, device=param.device)
        self.mine = torch.zeros(self.part, device=param.device)
        self.exp_avg = torch.zeros_like(self.mine)
        self.exp_sq = torch.zeros_like(self.mine)
        self.lo = rank * self.part


class ShardedAdam:
    def __init__(self, module, lr=1e-3):
        self.module, self.lr = module, lr
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.side = torch.cuda.Stream()
        self.shards = {p: Shard(p, self.rank, self.world) for p in module.parameters()}
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._reduce)
        self.t = 0

    def _reduce(self, p):
        shard = self.shards[p]
        grad = p.grad
        p.grad = None
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            shard.flat[: grad.numel()].copy_(grad.flatten())
            dist.reduce_scatter_tensor(shard.mine, shard.flat)
            shard.mine.div_(self.world)
        grad.record_stream(self.side)

    def _update(self, p, shard):
        shard.exp_avg.mul_(0.9).add_(shard.mine, alpha=0.1)
        shard.exp_sq.mul_(0.99).addcmul_(shard.mine, shard.mine, value=0.01)
        delta = shard.exp_avg / (shard.exp_sq.sqrt() + 1e-8)
        full = torch.empty(shard.part * self.world, device=p.device)
        dist.all_gather_into_tensor(full, delta)
        p.add_(full[: p.numel()].view_as(p), alpha=-self.lr)

    @torch.no_grad()
    def step(self):
        self.t += 1
        torch.cuda.current_stream().wait_stream(self.side)
        for p, shard in self.shards.items():
            self._update(p, shard)


def make_model(dim=512, depth=6):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.ReLU()]
    return nn.Sequential(*layers)


def main():
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = make_model().cuda()
    opt = ShardedAdam(model)
    for _ in range(20):
        x = torch.randn(64, 512, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        opt.step()
    if rank == 0:
        print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
