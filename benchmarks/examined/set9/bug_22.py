from typing import Optional

import torch
import torch.distributed as dist


class FSDPParam:
    """One sharded parameter; with CPU offload its shard and grad live in pinned host memory."""

    def __init__(self, param: torch.nn.Parameter, group, pin_memory: bool = True):
        self.world_size = dist.get_world_size(group)
        shard = param.detach().flatten().chunk(self.world_size)[dist.get_rank(group)]
        self.sharded_param = torch.nn.Parameter(shard.cpu().pin_memory())
        self.pin_memory = pin_memory
        self.grad_offload_event: Optional[torch.cuda.Event] = None


def foreach_reduce(fsdp_params, unsharded_grads, group, reduce_scatter_stream):
    world_size = dist.get_world_size(group)
    reduce_scatter_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(reduce_scatter_stream):
        flat = torch.cat([g.reshape(world_size, -1) for g in unsharded_grads], dim=1)
        for grad in unsharded_grads:
            grad.record_stream(reduce_scatter_stream)
        reduce_output = flat.new_empty((flat.shape[1],))
        dist.reduce_scatter_tensor(reduce_output, flat, op=dist.ReduceOp.AVG, group=group)
        flat_grad_offset = 0
        for fsdp_param in fsdp_params:
            numel = fsdp_param.sharded_param.numel()
            new_sharded_grad = reduce_output[flat_grad_offset : flat_grad_offset + numel]
            non_blocking = fsdp_param.pin_memory
            new_sharded_grad = new_sharded_grad.to(torch.device("cpu"), non_blocking=non_blocking)
            if non_blocking:
                # Record an event on which to block the CPU thread
                fsdp_param.grad_offload_event = reduce_scatter_stream.record_event()
            if fsdp_param.sharded_param.grad is None:
                fsdp_param.sharded_param.grad = new_sharded_grad
            for hook in (getattr(fsdp_param.sharded_param, "_post_accumulate_grad_hooks", None) or {}).values():
                hook(fsdp_param.sharded_param)
            flat_grad_offset += numel
    return reduce_scatter_stream.record_event()


class FSDPParamGroup:
    def __init__(self, fsdp_params, group):
        self.fsdp_params = fsdp_params
        self.group = group
        self.reduce_scatter_stream = torch.cuda.Stream(priority=-1)
        self._post_reduce_event = None

    def post_backward(self, unsharded_grads):
        self._post_reduce_event = foreach_reduce(
            self.fsdp_params, unsharded_grads, self.group, self.reduce_scatter_stream
        )

    def finalize_backward(self):
        torch.cuda.current_stream().wait_event(self._post_reduce_event)
        for fsdp_param in self.fsdp_params:
            if fsdp_param.grad_offload_event is not None:
                fsdp_param.grad_offload_event.synchronize()
                fsdp_param.grad_offload_event = None


def apply_optimizer_in_backward(group: FSDPParamGroup, lr: float):
    def hook(p):
        with torch.no_grad():
            p.add_(p.grad, alpha=-lr)
        p.grad = None

    for fsdp_param in group.fsdp_params:
        fsdp_param.sharded_param.register_post_accumulate_grad_hook(hook)
