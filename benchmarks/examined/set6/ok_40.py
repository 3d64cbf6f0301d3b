from typing import Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn


class EventOverlap:
    """A recorded event plus the tensors the recorded work still needs."""

    def __init__(
        self,
        event: Optional[torch.cuda.Event] = None,
        extra_tensors: Optional[Tuple[torch.Tensor, ...]] = None,
    ):
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.event)
        self.extra_tensors = None


class Buffer:
    """All-to-all on a communication stream that joins the compute stream on entry."""

    def __init__(self, group: dist.ProcessGroup):
        self.group = group
        self.comm_stream = torch.cuda.Stream()

    def _exchange(self, x: torch.Tensor) -> Tuple[torch.Tensor, EventOverlap]:
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            out = torch.empty_like(x)
            dist.all_to_all_single(out, x, group=self.group)
            event = self.comm_stream.record_event()
        return out, EventOverlap(event, (x,))

    def dispatch(self, x: torch.Tensor) -> Tuple[torch.Tensor, EventOverlap]:
        return self._exchange(x)

    def combine(self, x: torch.Tensor) -> Tuple[torch.Tensor, EventOverlap]:
        return self._exchange(x)


class SharedExpertMoE(nn.Module):
    def __init__(self, dim: int, hidden: int, buffer: Buffer):
        super().__init__()
        self.buffer = buffer
        self.gate = nn.Linear(dim, 1)
        self.expert = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.shared_up = nn.Linear(dim, hidden)
        self.shared_down = nn.Linear(hidden, dim)

    def _route(self, x: torch.Tensor) -> torch.Tensor:
        return (x * torch.sigmoid(self.gate(x))).contiguous()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dispatched, dispatch_event = self.buffer.dispatch(self._route(x))
        shared = nn.functional.silu(self.shared_up(x))
        dispatch_event.current_stream_wait()

        combined, combine_event = self.buffer.combine(self.expert(dispatched))
        del dispatched
        shared = self.shared_down(shared)
        combine_event.current_stream_wait()
        return shared + combined


class MoEDecoder(nn.Module):
    def __init__(self, dim: int, hidden: int, depth: int, group):
        super().__init__()
        buffer = Buffer(group)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.experts = nn.ModuleList(SharedExpertMoE(dim, hidden, buffer) for _ in range(depth))

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, moe in zip(self.norms, self.experts):
            x = x + moe(norm(x))
        return x
