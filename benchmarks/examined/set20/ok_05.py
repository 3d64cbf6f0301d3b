"""Reduce-scatter of gradients for fully sharded parameters."""
from typing import NamedTuple, Optional

import torch
import torch.distributed as dist


class ReduceScatterState(NamedTuple):
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    def __init__(self, device):
        self.device = device
        self.reduce_scatter_stream = torch.cuda.Stream(device=device)
        self.reduce_scatter_state: Optional[ReduceScatterState] = None


class ShardedParam:
    def __init__(self, param, world_size):
        self.unsharded_param = param
        self.sharded_numel = (param.numel() + world_size - 1) // world_size
        self.sharded_grad = None


class ParamGroup:
    def __init__(self, params, group, comm_ctx):
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.comm_ctx = comm_ctx
        self.params = [ShardedParam(p, self.world_size) for p in params]
        self._post_reduce_event = None
        self._reduce_output = None

    def _copy_in(self):
        rows = []
        for sp in self.params:
            flat = sp.unsharded_param.grad.reshape(-1).float()
            pad = sp.sharded_numel * self.world_size - flat.numel()
            if pad:
                flat = torch.nn.functional.pad(flat, (0, pad))
            rows.append(flat.view(self.world_size, sp.sharded_numel))
        return torch.cat(rows, dim=1).contiguous()

    def post_backward(self):
        ctx = self.comm_ctx
        current = torch.cuda.current_stream(ctx.device)
        if ctx.reduce_scatter_state is not None:
            current.wait_event(ctx.reduce_scatter_state.event)
            ctx.reduce_scatter_state = None
        rs_input = self._copy_in()
        for sp in self.params:
            sp.unsharded_param.grad = None
        reduce_output = torch.empty(
            rs_input.shape[1], dtype=rs_input.dtype, device=ctx.device
        )
        rs_stream = ctx.reduce_scatter_stream
        rs_stream.wait_stream(current)
        with torch.cuda.stream(rs_stream):
            dist.reduce_scatter_tensor(
                reduce_output, rs_input.view(-1), op=dist.ReduceOp.SUM, group=self.group
            )
            rs_event = rs_stream.record_event()
            reduce_output.div_(self.world_size)
            offset = 0
            for sp in self.params:
                piece = reduce_output[offset:offset + sp.sharded_numel]
                if sp.sharded_grad is None:
                    sp.sharded_grad = piece
                else:
                    sp.sharded_grad.add_(piece)
                offset += sp.sharded_numel
            self._post_reduce_event = rs_stream.record_event()
        ctx.reduce_scatter_state = ReduceScatterState(rs_input, rs_event)
        self._reduce_output = reduce_output

    def finalize_backward(self):
        if self._post_reduce_event is not None:
            torch.cuda.current_stream(self.comm_ctx.device).wait_event(
                self._post_reduce_event
            )
            self._post_reduce_event = None
        self._reduce_output = None


def backward_pass(loss, groups, comm_ctx):
    loss.backward()
    for g in reversed(groups):
        g.post_backward()
    for g in groups:
        g.finalize_backward()
    if comm_ctx.reduce_scatter_state is not None:
        torch.cuda.current_stream(comm_ctx.device).wait_event(
            comm_ctx.reduce_scatter_state.event
        )
        comm_ctx.reduce_scatter_state = None


def optimizer_step(groups, lr):
    for g in groups:
        for sp in g.params:
            start = dist.get_rank(g.group) * sp.sharded_numel
            flat = sp.unsharded_param.data.view(-1)
            end = min(start + sp.sharded_numel, flat.numel())
            if start < end:
                flat[start:end].add_(sp.sharded_grad[: end - start].to(flat.dtype), alpha=-lr)
            sp.sharded_grad = None
