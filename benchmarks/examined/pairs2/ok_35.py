"""Sharded SGD whose parameter all-gathers are overlapped with the next forward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatUnit:
    def __init__(self, module, device):
        self.module = module
        self.params = list(module.parameters())
        world, rank = dist.get_world_size(), dist.get_rank()
        total = sum(p.numel() for p in self.params)
        self.shard_len = -(-total // world)
        self.flat = torch.zeros(self.shard_len * world, device=device)
        self.grad = torch.zeros_like(self.flat)
        self.shard = self.flat.narrow(0, rank * self.shard_len, self.shard_len)
        self.grad_shard = torch.zeros(self.shard_len, device=device)
        offset = 0
        for p in self.params:
            view = self.flat.narrow(0, offset, p.numel()).view_as(p)
            view.copy_(p.data)
            p.data = view
            p.grad = self.grad.narrow(0, offset, p.numel()).view_as(p)
            offset += p.numel()


class ShardedSGD:
    def __init__(self, model, lr, device):
        self.lr = lr
        self.units = [FlatUnit(m, device) for m in model if any(True for _ in m.parameters())]
        self.gathers = {}
        for unit in self.units:
            unit.module.register_forward_pre_hook(self._before_forward)

    def _before_forward(self, module, args):
        work = self.gathers.pop(module, None)
        if work is not None:
            work.wait()

    @torch.no_grad()
    def step(self):
        for unit in self.units:
            dist.reduce_scatter_tensor(unit.grad_shard, unit.grad)
            unit.shard.add_(unit.grad_shard, alpha=-self.lr / dist.get_world_size())
            unit.grad.zero_()
            self.gathers[unit.module] = dist.all_gather_into_tensor(unit.flat, unit.shard, async_op=True)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).to(device)
    opt = ShardedSGD(model, 0.05, device)
    for _ in range(200):
        x = torch.randn(64, 1024, device=device)
        (model(x) - x).pow(2).mean().backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
