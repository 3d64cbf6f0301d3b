from __future__ import annotations

import os
from typing import NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import nn


class ReduceScatterState(NamedTuple):
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    def __init__(self) -> None:
        self.reduce_scatter_stream = torch.cuda.Stream(priority=-1)
        self.reduce_scatter_state: Optional[ReduceScatterState] = None


class ParamGroup:
    """Flat-sharded gradients of one block."""

    def __init__(self, module: nn.Module, comm: CommContext, group: dist.ProcessGroup) -> None:
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.comm = comm
        self.group = group
        self.world = dist.get_world_size(group)
        total = sum(p.numel() for p in self.params)
        self.padded = (total + self.world - 1) // self.world * self.world
        self.sharded_grad = torch.zeros(self.padded // self.world, device="cuda")
        self._post_reduce_event: Optional[torch.cuda.Event] = None
        self._ready = 0
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param: nn.Parameter) -> None:
        self._ready += 1
        if self._ready == len(self.params):
            self._ready = 0
            self.post_backward()

    @torch.no_grad()
    def post_backward(self) -> None:
        grads = [p.grad.view(-1) for p in self.params]
        prev = self.comm.reduce_scatter_state
        if prev is not None:
            torch.cuda.current_stream().wait_event(prev.event)
            self.comm.reduce_scatter_state = None
        flat = torch.zeros(self.padded, device="cuda")
        torch.cat(grads, out=flat[: sum(g.numel() for g in grads)])
        for p in self.params:
            p.grad = None

        rs = self.comm.reduce_scatter_stream
        rs.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(rs):
            out = torch.empty_like(self.sharded_grad)
            dist.reduce_scatter_tensor(out, flat, op=dist.ReduceOp.AVG, group=self.group)
            self.sharded_grad.add_(out)
            event = rs.record_event()
        self.comm.reduce_scatter_state = ReduceScatterState(flat, event)
        self._post_reduce_event = event

    def finalize_backward(self) -> None:
        if self._post_reduce_event is not None:
            torch.cuda.current_stream().wait_event(self._post_reduce_event)
            self._post_reduce_event = None

    @torch.no_grad()
    def grad_norm_sq(self) -> torch.Tensor:
        return self.sharded_grad.pow(2).sum()

    def zero(self) -> None:
        self.sharded_grad.zero_()


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    group = dist.group.WORLD
    blocks = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)]).cuda()
    comm = CommContext()
    groups = [ParamGroup(b, comm, group) for b in blocks]
    for _ in range(10):
        loss = blocks(torch.randn(32, 256, device="cuda")).square().mean()
        loss.backward()
        for g in groups:
            g.finalize_backward()
        norm = torch.stack([g.grad_norm_sq() for g in groups]).sum()
        dist.all_reduce(norm)
        print(norm.sqrt().item())
        for g in groups:
            g.zero()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
