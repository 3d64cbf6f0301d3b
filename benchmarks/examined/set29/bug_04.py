"""Expert-parallel token dispatch with a communication stream of its own."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class EventHandle:
    event: torch.cuda.Event

    @classmethod
    def capture(cls) -> "EventHandle":
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream())
        return cls(event)

    def current_stream_wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.event)


@dataclass
class DispatchLayout:
    tokens_per_expert: torch.Tensor
    tokens_per_rank: torch.Tensor


class DispatchBuffer:
    def __init__(self, group: dist.ProcessGroup, num_experts: int) -> None:
        self.group = group
        self.num_experts = num_experts
        self.experts_per_rank = num_experts // group.size()
        self.comm_stream = torch.cuda.Stream(priority=-1)

    def get_dispatch_layout(self, topk_idx: torch.Tensor, previous_event: EventHandle):
        self.comm_stream.wait_event(previous_event.event)
        topk_idx.record_stream(self.comm_stream)
        with torch.cuda.stream(self.comm_stream):
            counts = torch.zeros(self.num_experts + 1, dtype=torch.int64, device=topk_idx.device)
            slots = torch.where(topk_idx < 0, self.num_experts, topk_idx).flatten()
            counts.scatter_add_(0, slots, torch.ones_like(slots))
            per_expert = counts[: self.num_experts]
            per_rank = per_expert.view(-1, self.experts_per_rank).sum(dim=1)
            done = EventHandle.capture()
        return DispatchLayout(per_expert, per_rank), done

    def exchange_counts(self, layout: DispatchLayout, previous_event: EventHandle):
        self.comm_stream.wait_event(previous_event.event)
        with torch.cuda.stream(self.comm_stream):
            received = torch.empty_like(layout.tokens_per_expert)
            dist.all_to_all_single(received, layout.tokens_per_expert, group=self.group)
            done = EventHandle.capture()
        return received, done


class TokenDispatcher:
    def __init__(self, buffer: DispatchBuffer) -> None:
        self.buffer = buffer

    def dispatch_tokens(self, top_scores: torch.Tensor, selected: torch.Tensor):
        compute_stream = torch.cuda.current_stream()
        previous_event = EventHandle.capture()
        selected = selected.masked_fill(top_scores == 0, -1)
        layout, layout_event = self.buffer.get_dispatch_layout(selected, previous_event)
        received, counts_event = self.buffer.exchange_counts(layout, layout_event)
        counts_event.current_stream_wait()
        for t in (layout.tokens_per_expert, layout.tokens_per_rank, received):
            t.record_stream(compute_stream)
        return selected, layout, received


class Router(nn.Module):
    def __init__(self, dim: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.top_k = top_k

    def forward(self, x: torch.Tensor):
        scores = torch.softmax(self.gate(x).float(), dim=-1)
        top_scores, selected = torch.topk(scores, self.top_k, dim=-1)
        top_scores = torch.where(top_scores < 1e-3, 0.0, top_scores)
        return top_scores, selected


@torch.no_grad()
def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    router = Router(1024, 64, 6).cuda()
    dispatcher = TokenDispatcher(DispatchBuffer(dist.group.WORLD, 64))
    for _ in range(16):
        top_scores, selected = router(torch.randn(8192, 1024, device="cuda"))
        selected, layout, received = dispatcher.dispatch_tokens(top_scores, selected)
        assert int((selected >= 0).sum()) == int(layout.tokens_per_expert.sum())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
