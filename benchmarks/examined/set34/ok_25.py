"""Sharded SGD whose update runs on the communication stream."""
import os
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn


class ShardedSGD:
    """Parameters and gradients live in two flat buffers shared by all layers."""

    def __init__(self, module: nn.Module, lr: float):
        self.lr = lr
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        params: List[nn.Parameter] = list(module.parameters())
        device = params[0].device
        numel = sum(p.numel() for p in params)
        self.shard_numel = (numel + self.world - 1) // self.world
        padded = self.shard_numel * self.world
        self.flat_param = torch.zeros(padded, device=device)
        self.flat_grad = torch.zeros(padded, device=device)
        self.shard_grad = torch.zeros(self.shard_numel, device=device)
        self.momentum = torch.zeros(self.shard_numel, device=device)
        offset = 0
        for p in params:
            view = self.flat_param[offset : offset + p.numel()].view_as(p)
            view.copy_(p.detach())
            p.data = view
            p.grad = self.flat_grad[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        begin = self.rank * self.shard_numel
        self.shard_param = self.flat_param[begin : begin + self.shard_numel]
        self.comm = torch.cuda.Stream(device)
        self.ready = torch.cuda.Event()
        self.ready.record()
        module.register_forward_pre_hook(lambda mod, args: self.wait())

    def wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.ready)

    @torch.no_grad()
    def step(self) -> None:
        self.comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm):
            scatter = dist.reduce_scatter_tensor(self.shard_grad, self.flat_grad, async_op=True)
            scatter.wait()
            self.flat_grad.zero_()
            self.momentum.mul_(0.9).add_(self.shard_grad, alpha=1.0 / self.world)
            self.shard_param.add_(self.momentum, alpha=-self.lr)
            gather = dist.all_gather_into_tensor(
                self.flat_param, self.shard_param, async_op=True
            )
            gather.wait()
            self.ready.record(self.comm)


def train(steps: int = 200) -> None:
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    opt = ShardedSGD(model, lr=1e-3)
    torch.manual_seed(rank)
    average = torch.zeros((), device="cuda")
    for _ in range(steps):
        batch = torch.randn(128, 1024, device="cuda")
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        opt.step()
        average.mul_(0.95).add_(loss.detach(), alpha=0.05)
    opt.wait()
    checksum = opt.flat_param.double().sum()
    print(rank, average.item(), checksum.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
