"""Tensor-parallel training step: sequence-parallel norms and data-parallel weights."""
import os
from collections import defaultdict

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


class Communicator:
    """Starts reductions during backward and settles them before the optimizer."""

    def __init__(self, tp_group, dp_group):
        self.tp_group = tp_group
        self.dp_group = dp_group
        self.works = defaultdict(list)

    def attach(self, model):
        for name, p in model.named_parameters():
            tag = "tp" if ".norm." in name else "dp"
            p.register_post_accumulate_grad_hook(lambda q, tag=tag: self.reduce(tag, q.grad))

    def reduce(self, tag, grad):
        group = self.tp_group if tag == "tp" else self.dp_group
        self.works[tag].append(dist.all_reduce(grad, group=group, async_op=True))

    def settle(self):
        for work in self.works["dp"]:
            work.wait()
        self.works.clear()


def make_groups(world, tp):
    rank = dist.get_rank()
    mine = [None, None]
    for start in range(0, world, tp):
        ranks = list(range(start, start + tp))
        g = dist.new_group(ranks)
        if rank in ranks:
            mine[0] = g
    for offset in range(tp):
        ranks = list(range(offset, world, tp))
        g = dist.new_group(ranks)
        if rank in ranks:
            mine[1] = g
    return mine


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    tp_group, dp_group = make_groups(dist.get_world_size(), tp=2)
    model = nn.Sequential(*[Block(2048) for _ in range(8)]).cuda()
    comm = Communicator(tp_group, dp_group)
    comm.attach(model)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for _ in range(100):
        x = torch.randn(64, 2048, device="cuda")
        model(x).square().mean().backward()
        comm.settle()
        opt.step()
        opt.zero_grad(set_to_none=False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
