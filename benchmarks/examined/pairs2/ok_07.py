"""Column-parallel linear layer with overlapped input-gradient reduction."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class LinearWithAsyncReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, group):
        ctx.save_for_backward(x, weight)
        ctx.group = group
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        grad_x = grad_out @ weight
        handle = dist.all_reduce(grad_x, group=ctx.group, async_op=True)
        grad_w = None
        if ctx.needs_input_grad[1]:
            grad_w = grad_out.flatten(0, -2).t() @ x.flatten(0, -2)
        handle.wait()
        return grad_x, grad_w, None


class ColumnParallelLinear(nn.Module):
    def __init__(self, dim_in, dim_out, group):
        super().__init__()
        self.group = group
        local = dim_out // dist.get_world_size(group)
        self.weight = nn.Parameter(torch.randn(local, dim_in) * 0.02)

    def forward(self, x):
        return LinearWithAsyncReduce.apply(x, self.weight, self.group)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    group = dist.new_group()
    embed = nn.Linear(256, 1024).cuda()
    proj = ColumnParallelLinear(1024, 4096, group).cuda()
    opt = torch.optim.AdamW([*embed.parameters(), *proj.parameters()], lr=1e-4)
    for _ in range(100):
        x = torch.randn(8, 128, 256, device="cuda")
        loss = proj(embed(x)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
