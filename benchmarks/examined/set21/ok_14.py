from dataclasses import dataclass
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class ReduceScatterState:
    reduce_input: torch.Tensor
    unsharded_grads: List[torch.Tensor]
    event: torch.cuda.Event


class FSDPParamGroup:
    def __init__(self, module: nn.Module, rs_stream: torch.cuda.Stream, group: dist.ProcessGroup):
        self.params = list(module.parameters())
        self.rs_stream = rs_stream
        self.group = group
        self.world = dist.get_world_size(group)
        numel = sum(p.numel() for p in self.params)
        self.padded = (numel + self.world - 1) // self.world * self.world
        self.sharded_grad = torch.zeros(self.padded // self.world, device=self.params[0].device)
        self.states: List[ReduceScatterState] = []

    @torch.no_grad()
    def post_backward(self) -> None:
        grads = [p.grad for p in self.params]
        for p in self.params:
            p.grad = None
        reduce_input = torch.zeros(self.padded, device=self.sharded_grad.device)
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            offset = 0
            for g in grads:
                reduce_input[offset:offset + g.numel()].copy_(g.view(-1))
                offset += g.numel()
            output = torch.empty_like(self.sharded_grad)
            dist.reduce_scatter_tensor(output, reduce_input, group=self.group)
            self.sharded_grad.add_(output, alpha=1.0 / self.world)
            event = self.rs_stream.record_event()
        self.states.append(ReduceScatterState(reduce_input, grads, event))

    def finalize_backward(self) -> None:
        stream = torch.cuda.current_stream()
        for state in self.states:
            stream.wait_event(state.event)
        self.states.clear()


class PipelineStage:
    """Runs several microbatches and reduces the gradients at the end of the step."""

    def __init__(self, module: nn.Module, group: dist.ProcessGroup, lr: float):
        self.module = module
        self.rs_stream = torch.cuda.Stream()
        self.param_group = FSDPParamGroup(module, self.rs_stream, group)
        self.lr = lr

    def step(self, microbatches: List[torch.Tensor]) -> torch.Tensor:
        losses = []
        for x in microbatches:
            loss = self.module(x).square().mean()
            loss.backward()
            losses.append(loss.detach())
            self.param_group.post_backward()
        self.param_group.finalize_backward()
        self._apply()
        return torch.stack(losses).mean()

    @torch.no_grad()
    def _apply(self) -> None:
        grad = self.param_group.sharded_grad
        full = torch.empty(self.param_group.padded, device=grad.device)
        dist.all_gather_into_tensor(full, grad, group=self.param_group.group)
        offset = 0
        for p in self.param_group.params:
            p.sub_(full[offset:offset + p.numel()].view_as(p), alpha=self.lr)
            offset += p.numel()
        grad.zero_()


def train(steps: int = 50, dim: int = 2048) -> List[float]:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    module = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)).cuda()
    stage = PipelineStage(module, dist.group.WORLD, 1e-4)
    losses = []
    for _ in range(steps):
        losses.append(stage.step([torch.randn(64, dim, device="cuda") for _ in range(4)]))
    return torch.stack(losses).tolist()
