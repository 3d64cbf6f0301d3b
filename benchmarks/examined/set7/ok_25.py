from typing import List, NamedTuple, Optional

import torch
import torch.distributed as dist


class AllGatherResult(NamedTuple):
    output: torch.Tensor
    event: torch.cuda.Event


class AllGatherState(NamedTuple):
    result: AllGatherResult
    copy_out_event: torch.cuda.Event


class FSDPCommContext:
    def __init__(self, device: torch.device):
        self.all_gather_copy_in_stream = torch.cuda.Stream(device, priority=-1)
        self.all_gather_stream = torch.cuda.Stream(device, priority=-1)
        self.all_gather_state: Optional[AllGatherState] = None


@torch.no_grad()
def foreach_all_gather(shards: List[torch.Tensor], group, ctx: FSDPCommContext) -> AllGatherResult:
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    numel = sum(s.numel() for s in shards)
    with torch.cuda.stream(ctx.all_gather_copy_in_stream):
        output = torch.empty(world * numel, dtype=shards[0].dtype, device=shards[0].device)
        local = output.narrow(0, rank * numel, numel)
        torch._foreach_copy_(list(local.split([s.numel() for s in shards])), [s.view(-1) for s in shards])
    ctx.all_gather_stream.wait_stream(ctx.all_gather_copy_in_stream)
    with torch.cuda.stream(ctx.all_gather_stream):
        dist.all_gather_into_tensor(output, local, group=group)
        event = ctx.all_gather_stream.record_event()
    return AllGatherResult(output, event)


class FSDPParamGroup:
    def __init__(self, shards: List[torch.Tensor], group, ctx: FSDPCommContext):
        self.shards = shards
        self.group = group
        self.ctx = ctx
        self.full: List[torch.Tensor] = []
        self._result: Optional[AllGatherResult] = None

    def unshard(self) -> None:
        if self._result is None and not self.full:
            self._result = foreach_all_gather(self.shards, self.group, self.ctx)

    @torch.no_grad()
    def wait_for_unshard(self) -> None:
        if self._result is None:
            return
        if (prev := self.ctx.all_gather_state) is not None:
            self.ctx.all_gather_copy_in_stream.wait_event(prev.copy_out_event)
            self.ctx.all_gather_state = None
        current = torch.cuda.current_stream()
        current.wait_event(self._result.event)
        world = dist.get_world_size(self.group)
        sizes = [s.numel() for s in self.shards]
        pieces = self._result.output.view(world, -1).split(sizes, dim=1)
        self.full = [p.clone(memory_format=torch.contiguous_format).view(-1) for p in pieces]
        self.ctx.all_gather_state = AllGatherState(self._result, current.record_event())
        self._result = None

    def reshard(self) -> None:
        self.full = []


class FSDPModel:
    def __init__(self, groups: List[FSDPParamGroup], fns, ctx: FSDPCommContext):
        self.groups = groups
        self.fns = fns
        self.ctx = ctx

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        self.ctx.all_gather_copy_in_stream.wait_stream(current)
        self.ctx.all_gather_stream.wait_stream(current)
        for i, (group, fn) in enumerate(zip(self.groups, self.fns)):
            group.unshard()
            group.wait_for_unshard()
            if i + 1 < len(self.groups):
                self.groups[i + 1].unshard()
            x = fn(x, group.full)
            group.reshard()
        if (state := self.ctx.all_gather_state) is not None:
            self.ctx.all_gather_copy_in_stream.wait_event(state.copy_out_event)
            self.ctx.all_gather_state = None
        return x
