from dataclasses import dataclass
from typing import List, Optional

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class PendingChunk:
    tokens: torch.Tensor
    topk_weight: torch.Tensor


class ExpertParallelRunner(nn.Module):
    """Dispatch, expert MLP and combine, chunk by chunk to overlap the exchanges."""

    def __init__(self, dim: int, hidden: int, group=None, token_chunk_size: Optional[int] = None):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(dim, hidden))
        self.w2 = nn.Parameter(torch.empty(hidden, dim))
        nn.init.xavier_uniform_(self.w1)
        nn.init.xavier_uniform_(self.w2)
        self.group = group
        self.token_chunk_size = token_chunk_size
        self._combine_streams = [torch.cuda.Stream() for _ in range(2)]
        self._pending_combine_event: Optional[torch.cuda.Event] = None

    def _combine(self, expert_out: torch.Tensor, chunk_index: int) -> torch.Tensor:
        stream = self._combine_streams[chunk_index % 2]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            combined = torch.empty_like(expert_out)
            dist.all_to_all_single(combined, expert_out, group=self.group)
            combined = combined * 0.5 + expert_out * 0.5
            self._pending_combine_event = stream.record_event()
        expert_out.record_stream(stream)
        return combined

    def sync_combine(self) -> None:
        if self._pending_combine_event is not None:
            torch.cuda.current_stream().wait_event(self._pending_combine_event)
            self._pending_combine_event = None

    def _run_chunk(self, chunk: PendingChunk, chunk_index: int) -> torch.Tensor:
        h = torch.nn.functional.silu(chunk.tokens @ self.w1)
        out = (h @ self.w2) * chunk.topk_weight.unsqueeze(-1)
        return self._combine(out, chunk_index)

    def _split(self, x: torch.Tensor, weight: torch.Tensor) -> List[PendingChunk]:
        if self.token_chunk_size is None:
            return [PendingChunk(x, weight)]
        return [
            PendingChunk(t, w)
            for t, w in zip(x.split(self.token_chunk_size), weight.split(self.token_chunk_size))
        ]

    @torch.no_grad()
    def forward(self, x: torch.Tensor, topk_weight: torch.Tensor) -> torch.Tensor:
        routed_outputs = []
        for index, chunk in enumerate(self._split(x, topk_weight)):
            routed_outputs.append(self._run_chunk(chunk, index))
        self.sync_combine()
        current = torch.cuda.current_stream()
        for routed in routed_outputs:
            routed.record_stream(current)
        if len(routed_outputs) == 1:
            return routed_outputs[0]
        return torch.cat(routed_outputs, dim=0)
