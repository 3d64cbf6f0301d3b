"""Gradient reduction of one parameter group for hybrid sharding (reduce-scatter + all-reduce)."""
from typing import List, NamedTuple, Optional

import torch
import torch.distributed as dist


class ReduceScatterState(NamedTuple):
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class AllReduceState(NamedTuple):
    all_reduce_input: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    def __init__(self, device: torch.device):
        self.reduce_scatter_stream = torch.cuda.Stream(device, priority=-1)
        self.all_reduce_stream = torch.cuda.Stream(device)
        self.reduce_scatter_state: Optional[ReduceScatterState] = None
        self.all_reduce_states: List[AllReduceState] = []


class FSDPParam:
    def __init__(self, sharded_param: torch.nn.Parameter, padded_numel: int):
        self.sharded_param = sharded_param
        self.padded_numel = padded_numel


def chunk_cat(grads: List[torch.Tensor], world_size: int, out: torch.Tensor) -> None:
    out = out.view(world_size, -1)
    torch._chunk_cat(grads, dim=0, num_chunks=world_size, out=out)


def foreach_reduce(
    params: List[FSDPParam],
    unsharded_grads: List[torch.Tensor],
    ctx: CommContext,
    reduce_scatter_group: dist.ProcessGroup,
    all_reduce_group: Optional[dist.ProcessGroup],
    orig_dtype: torch.dtype,
    reduce_dtype: torch.dtype,
) -> torch.cuda.Event:
    world_size = reduce_scatter_group.size()
    device = unsharded_grads[0].device
    current_stream = torch.cuda.current_stream()
    if ctx.reduce_scatter_state is not None:
        current_stream.wait_event(ctx.reduce_scatter_state.event)
        ctx.reduce_scatter_state = None

    input_numel = sum(p.padded_numel * world_size for p in params)
    reduce_scatter_input = torch.empty(input_numel, dtype=reduce_dtype, device=device)
    chunk_cat(unsharded_grads, world_size, reduce_scatter_input)
    unsharded_grads.clear()

    rs_stream = ctx.reduce_scatter_stream
    rs_stream.wait_stream(current_stream)
    with torch.cuda.stream(rs_stream):
        reduce_output = torch.empty(input_numel // world_size, dtype=reduce_dtype, device=device)
        dist.reduce_scatter_tensor(reduce_output, reduce_scatter_input, op=dist.ReduceOp.AVG, group=reduce_scatter_group)
        ctx.reduce_scatter_state = ReduceScatterState(reduce_scatter_input, rs_stream.record_event())

    post_reduce_stream = rs_stream
    if all_reduce_group is not None:
        post_reduce_stream = ctx.all_reduce_stream
        post_reduce_stream.wait_stream(rs_stream)
        with torch.cuda.stream(post_reduce_stream):
            dist.all_reduce(reduce_output, op=dist.ReduceOp.AVG, group=all_reduce_group)
    all_reduce_input = reduce_output

    with torch.cuda.stream(post_reduce_stream):
        reduce_output = reduce_output.to(orig_dtype)
        offset = 0
        for param in params:
            numel = param.sharded_param.numel()
            grad = reduce_output[offset : offset + numel].view(param.sharded_param.shape)
            if param.sharded_param.grad is None:
                param.sharded_param.grad = grad
            else:
                param.sharded_param.grad.add_(grad)
            offset += param.padded_numel
        post_reduce_event = post_reduce_stream.record_event()
    if all_reduce_group is not None:
        # allocated on the reduce-scatter stream, in use on the all-reduce stream
        ctx.all_reduce_states.append(AllReduceState(all_reduce_input, post_reduce_event))
    return post_reduce_event


class FSDPState:
    def __init__(self, ctx: CommContext, groups: list):
        self.ctx = ctx
        self.groups = groups
        self.post_reduce_events: List[torch.cuda.Event] = []

    def post_backward(self, group) -> None:
        event = foreach_reduce(
            group.params, group.take_unsharded_grads(), self.ctx, group.rs_group, group.ar_group,
            orig_dtype=torch.float32, reduce_dtype=torch.bfloat16,
        )
        self.post_reduce_events.append(event)

    def finalize_backward(self) -> None:
        current_stream = torch.cuda.current_stream()
        for event in self.post_reduce_events:
            current_stream.wait_event(event)
        self.post_reduce_events.clear()
        for state in self.ctx.all_reduce_states:
            current_stream.wait_event(state.event)
        self.ctx.all_reduce_states.clear()
        if self.ctx.reduce_scatter_state is not None:
            current_stream.wait_event(self.ctx.reduce_scatter_state.event)
            self.ctx.reduce_scatter_state = None
