"""Reduce-scatter of gradient groups with a bounded number of copy-in buffers in flight."""
from collections import deque
from typing import NamedTuple

import torch
import torch.distributed as dist


class ReduceScatterState(NamedTuple):
    input: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    def __init__(self, device, max_input_buffers=1):
        self.reduce_scatter_stream = torch.cuda.Stream(device=device, priority=-1)
        self.max_input_buffers = max_input_buffers
        self.states = deque()

    def reclaim(self, keep):
        while len(self.states) > keep:
            state = self.states.popleft()
            torch.cuda.current_stream().wait_event(state.event)
            del state


class ParamGroup:
    def __init__(self, params, comm, group):
        self.params = params
        self.comm = comm
        self.group = group
        self.world = dist.get_world_size(group)
        self.padded = [-(-p.shape[0] // self.world) * self.world for p in params]
        self.sharded_grads = []
        self.post_reduce_event = None

    def _copy_in(self, grads):
        numel = sum(n * g[0].numel() for n, g in zip(self.padded, grads))
        flat = torch.empty(numel, dtype=grads[0].dtype, device=grads[0].device)
        rows = flat.view(self.world, -1)
        offset = 0
        for n, g in zip(self.padded, grads):
            width = n // self.world * g[0].numel()
            padded = torch.nn.functional.pad(
                g.reshape(g.shape[0], -1), (0, 0, 0, n - g.shape[0])
            )
            rows[:, offset : offset + width].copy_(padded.view(self.world, width))
            offset += width
        return flat

    def post_backward(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        if len(grads) != len(self.params):
            return
        self.comm.reclaim(self.comm.max_input_buffers - 1)
        flat = self._copy_in(grads)
        stream = self.comm.reduce_scatter_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = flat.new_empty(flat.numel() // self.world)
            dist.reduce_scatter_tensor(out, flat, op=dist.ReduceOp.AVG, group=self.group)
            self.comm.states.append(ReduceScatterState(flat, stream.record_event()))
            self.sharded_grads.append(out.float())
            self.post_reduce_event = stream.record_event()
        for p in self.params:
            p.grad = None

    def finalize_backward(self):
        if self.post_reduce_event is None:
            return []
        main = torch.cuda.current_stream()
        main.wait_event(self.post_reduce_event)
        grads, self.sharded_grads = self.sharded_grads, []
        for g in grads:
            g.record_stream(main)
        self.post_reduce_event = None
        return grads


class Root:
    def __init__(self, blocks, group, max_input_buffers=2):
        device = torch.device("cuda", torch.cuda.current_device())
        self.comm = CommContext(device, max_input_buffers)
        self.groups = [ParamGroup(list(b.parameters()), self.comm, group) for b in blocks]
        for block, pg in zip(blocks, self.groups):
            block.register_full_backward_hook(lambda m, gi, go, pg=pg: pg.post_backward())

    def finish(self):
        shards = [pg.finalize_backward() for pg in self.groups]
        self.comm.reclaim(0)
        return shards
