"""Sequence-parallel linear with overlapped backward collectives."""
import torch
import torch.distributed as dist
from torch import nn


class OverlappedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, group):
        ctx.group = group
        ctx.save_for_backward(x, weight)
        world = dist.get_world_size(group)
        full = torch.empty(x.shape[0] * world, x.shape[1], dtype=x.dtype, device=x.device)
        dist.all_gather_into_tensor(full, x, group=group)
        return full @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        world = dist.get_world_size(ctx.group)
        full = torch.empty(x.shape[0] * world, x.shape[1], dtype=x.dtype, device=x.device)
        gather = dist.all_gather_into_tensor(full, x.contiguous(), group=ctx.group, async_op=True)
        grad_full = grad @ weight
        gather.wait()
        grad_x = torch.empty_like(x)
        scatter = dist.reduce_scatter_tensor(grad_x, grad_full, group=ctx.group, async_op=True)
        grad_w = grad.t() @ full
        scatter.wait()
        return grad_x, grad_w, None


class SPLinear(nn.Module):
    def __init__(self, dim_in, dim_out, group=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim_out, dim_in) * 0.02)
        self.group = group

    def forward(self, x):
        return OverlappedLinear.apply(x, self.weight, self.group)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layer = SPLinear(512, 1024).cuda()
    opt = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(64, 512, device="cuda", requires_grad=True)
        layer(x).square().mean().backward()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
