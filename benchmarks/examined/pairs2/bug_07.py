"""Tensor-parallel projection with a frozen base and a low-rank adapter."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class ParallelMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, group):
        ctx.save_for_backward(hidden, weight)
        ctx.group = group
        return torch.matmul(hidden, weight.t())

    @staticmethod
    def backward(ctx, grad):
        hidden, weight = ctx.saved_tensors
        dgrad = grad.matmul(weight)
        work = dist.all_reduce(dgrad, group=ctx.group, async_op=True)
        wgrad = None
        if ctx.needs_input_grad[1]:
            wgrad = grad.flatten(0, 1).t().matmul(hidden.flatten(0, 1))
            work.wait()
        return dgrad, wgrad, None


class AdaptedProjection(nn.Module):
    def __init__(self, dim, out_dim, rank, group):
        super().__init__()
        shard = out_dim // dist.get_world_size(group)
        self.group = group
        self.weight = nn.Parameter(torch.randn(shard, dim) * 0.01, requires_grad=False)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, shard, bias=False)

    def forward(self, hidden):
        base = ParallelMatmul.apply(hidden, self.weight, self.group)
        return base + self.up(self.down(hidden))


def finetune():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    group = dist.group.WORLD
    front = nn.Sequential(nn.Linear(512, 2048), nn.GELU()).cuda()
    proj = AdaptedProjection(2048, 8192, rank=16, group=group).cuda()
    params = [p for m in (front, proj) for p in m.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=2e-4)
    for _ in range(200):
        hidden = torch.randn(4, 256, 512, device="cuda")
        proj(front(hidden)).square().mean().backward()
        opt.step()
        opt.zero_grad(set_to_none=True)


if __name__ == "__main__":
    finetune()
