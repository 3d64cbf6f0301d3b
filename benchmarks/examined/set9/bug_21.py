from typing import NamedTuple, Optional

import torch
import torch.distributed as dist


class ReduceScatterState(NamedTuple):
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class FSDPCommContext:
    def __init__(self, device):
        self.reduce_scatter_stream = torch.cuda.Stream(device, priority=-1)
        self.all_reduce_stream = torch.cuda.Stream(device)
        self.reduce_scatter_state: Optional[ReduceScatterState] = None


class FSDPParam:
    def __init__(self, sharded_param: torch.nn.Parameter, offload_to_cpu: bool):
        self.sharded_param = sharded_param
        self.sharded_size = sharded_param.shape
        self.offload_to_cpu = offload_to_cpu
        self.grad_offload_event: Optional[torch.cuda.Event] = None


def foreach_reduce(fsdp_params, unsharded_grads, rs_group, rs_stream, ar_group, ar_stream):
    world_size = dist.get_world_size(rs_group)
    numel = sum(g.numel() for g in unsharded_grads)
    reduce_scatter_input = torch.empty(numel, dtype=torch.float32, device=unsharded_grads[0].device)
    chunks = [g.reshape(world_size, -1) for g in unsharded_grads]
    torch.cat(chunks, dim=1, out=reduce_scatter_input.view(world_size, -1))
    # Only after the copy-in finishes can we free the gradients
    unsharded_grads.clear()
    rs_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(rs_stream):
        reduce_output = reduce_scatter_input.new_empty((numel // world_size,))
        dist.reduce_scatter_tensor(reduce_output, reduce_scatter_input, op=dist.ReduceOp.AVG, group=rs_group)
        reduce_scatter_event = rs_stream.record_event()

    ar_stream.wait_stream(rs_stream)
    with torch.cuda.stream(ar_stream):
        dist.all_reduce(reduce_output, op=dist.ReduceOp.AVG, group=ar_group)
        offset = 0
        for fsdp_param in fsdp_params:
            shard_numel = fsdp_param.sharded_param.numel()
            new_sharded_grad = reduce_output[offset : offset + shard_numel].view(fsdp_param.sharded_size)
            if fsdp_param.offload_to_cpu:
                new_sharded_grad = new_sharded_grad.to("cpu", non_blocking=True)
                fsdp_param.grad_offload_event = ar_stream.record_event()
            fsdp_param.sharded_param.grad = new_sharded_grad
            offset += shard_numel
    post_reduce_event = ar_stream.record_event()
    return reduce_scatter_input, reduce_scatter_event, post_reduce_event


class FSDPParamGroup:
    def __init__(self, fsdp_params, comm_ctx: FSDPCommContext, rs_group, ar_group):
        self.fsdp_params = fsdp_params
        self.comm_ctx = comm_ctx
        self.rs_group = rs_group
        self.ar_group = ar_group
        self._post_reduce_event = None

    def post_backward(self, unsharded_grads):
        ctx = self.comm_ctx
        if (prev_state := ctx.reduce_scatter_state) is not None:
            torch.cuda.current_stream().wait_event(prev_state.event)
            ctx.reduce_scatter_state = None
        reduce_scatter_input, reduce_scatter_event, self._post_reduce_event = foreach_reduce(
            self.fsdp_params,
            unsharded_grads,
            self.rs_group,
            ctx.reduce_scatter_stream,
            self.ar_group,
            ctx.all_reduce_stream,
        )
        ctx.reduce_scatter_state = ReduceScatterState(reduce_scatter_input, reduce_scatter_event)

    def finalize_backward(self):
        if self._post_reduce_event is not None:
            torch.cuda.current_stream().wait_event(self._post_reduce_event)
            self._post_reduce_event = None
        for fsdp_param in self.fsdp_params:
            if fsdp_param.grad_offload_event is not None:
                fsdp_param.grad_offload_event.synchronize()
                fsdp_param.grad_offload_event = None
