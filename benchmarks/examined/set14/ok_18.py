from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class ReduceScatterState:
    input: torch.Tensor
    event: torch.cuda.Event


class ParamGroup:
    def __init__(self, params, group=None):
        self.params = params
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.numel = sum(p.numel() for p in params)
        self.padded = (self.numel + self.world_size - 1) // self.world_size * self.world_size
        flat = torch.cat([p.detach().view(-1) for p in params])
        flat = torch.nn.functional.pad(flat, (0, self.padded - self.numel))
        self.shard = torch.nn.Parameter(flat.chunk(self.world_size)[self.rank].clone())


class GradReducer:
    def __init__(self, groups):
        self.groups = groups
        self.rs_stream = torch.cuda.Stream(priority=-1)
        self._state = None

    def _release(self):
        if self._state is not None:
            torch.cuda.current_stream().wait_event(self._state.event)
            self._state = None

    def post_backward(self, group):
        self._release()
        flat = torch.cat([p.grad.view(-1) for p in group.params])
        flat = torch.nn.functional.pad(flat, (0, group.padded - group.numel))
        for p in group.params:
            p.grad = None
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            out = torch.empty(group.padded // group.world_size, dtype=flat.dtype, device=flat.device)
            dist.reduce_scatter_tensor(out, flat, op=dist.ReduceOp.AVG, group=group.group)
            group.shard.grad = out
            event = self.rs_stream.record_event()
        self._state = ReduceScatterState(flat, event)

    def finalize_backward(self):
        self._release()
        torch.cuda.current_stream().wait_stream(self.rs_stream)


def backward_and_step(loss, reducer, optimizer):
    loss.backward()
    for group in reversed(reducer.groups):
        reducer.post_backward(group)
    reducer.finalize_backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
