from typing import List, Optional, Tuple

import torch
import torch.distributed as dist


class AllToAllAsyncOp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, output_split_sizes, input_split_sizes, group):
        if output_split_sizes is not None:
            out = torch.empty((sum(output_split_sizes),) + x.shape[1:], device=x.device, dtype=x.dtype)
        else:
            out = torch.empty_like(x)
        handle = dist.all_to_all_single(
            out,
            x.contiguous(),
            output_split_sizes=output_split_sizes,
            input_split_sizes=input_split_sizes,
            group=group,
            async_op=True,
        )
        out._a2a_handle = handle
        out._a2a_meta = (x.shape, output_split_sizes, input_split_sizes, group)
        return x.view_as(x), out

    @staticmethod
    def backward(ctx, grad_x, grad_out):
        handle, grad_in = grad_x._a2a_pending
        handle.wait()
        return grad_in, None, None, None


class AllToAllWaitOp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, handle, meta):
        handle.wait()
        ctx.meta = meta
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        in_shape, output_split_sizes, input_split_sizes, group = ctx.meta
        grad = grad.contiguous()
        grad_in = torch.empty(in_shape, device=grad.device, dtype=grad.dtype)
        handle = dist.all_to_all_single(
            grad_in,
            grad,
            output_split_sizes=input_split_sizes,
            input_split_sizes=output_split_sizes,
            group=group,
            async_op=True,
        )
        grad_x = torch.empty(in_shape, device=grad.device, dtype=grad.dtype)
        grad_x._a2a_pending = (handle, grad_in)
        return grad_x, None, None, None


def all_to_all_async(
    x: torch.Tensor,
    output_split_sizes: Optional[List[int]] = None,
    input_split_sizes: Optional[List[int]] = None,
    group: Optional[dist.ProcessGroup] = None,
) -> Tuple[torch.Tensor, torch.Tensor, dist.Work]:
    x, y = AllToAllAsyncOp.apply(x, output_split_sizes, input_split_sizes, group)
    return x, y, y._a2a_handle


def all_to_all_wait(x: torch.Tensor, y: torch.Tensor, handle: dist.Work) -> torch.Tensor:
    return AllToAllWaitOp.apply(x, y, handle, y._a2a_meta)


class OverlappedMoE(torch.nn.Module):
    def __init__(self, shared_mlp, expert_mlp, group):
        super().__init__()
        self.shared_mlp = shared_mlp
        self.expert_mlp = expert_mlp
        self.group = group

    def forward(self, x, permuted, send_counts, recv_counts):
        permuted, parallel_x, handle = all_to_all_async(permuted, recv_counts, send_counts, self.group)
        shared_out = self.shared_mlp(x)
        parallel_x = all_to_all_wait(permuted, parallel_x, handle)
        parallel_x = self.expert_mlp(parallel_x)
        parallel_x, out, handle = all_to_all_async(parallel_x, send_counts, recv_counts, self.group)
        out = all_to_all_wait(parallel_x, out, handle)
        return shared_out, out
