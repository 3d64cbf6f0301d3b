from typing import Any, Callable, Optional

import torch
from torch import nn


def maybe_execute_in_parallel(
    fn0: Callable,
    fn1: Callable,
    event0: torch.cuda.Event,
    event1: torch.cuda.Event,
    aux_stream: Optional[torch.cuda.Stream] = None,
) -> tuple[Any, Any]:
    """Runs fn0 on the current stream and fn1 on aux_stream if there is one."""
    if aux_stream is None:
        return fn0(), fn1()
    event0.record()
    result0 = fn0()
    with torch.cuda.stream(aux_stream):
        event0.wait()
        result1 = fn1()
        event1.record()
    event1.wait()
    result1.record_stream(torch.cuda.current_stream())
    return result0, result1


class MLAQueries(nn.Module):
    def __init__(self, hidden, q_rank, kv_rank, heads, nope, rope, aux_stream=None):
        super().__init__()
        self.heads, self.nope, self.rope = heads, nope, rope
        self.q_a = nn.Linear(hidden, q_rank, bias=False)
        self.q_b = nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.k_b = nn.Parameter(torch.empty(heads, nope, kv_rank))
        self.aux_stream = aux_stream
        self.events = [torch.cuda.Event(), torch.cuda.Event()]

    def _absorb(self, q_nope):
        return torch.bmm(q_nope.transpose(0, 1), self.k_b).transpose(0, 1)

    def _rotate(self, q_pe, cos, sin):
        a, b = q_pe.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    @torch.no_grad()
    def forward(self, hidden_states, cos, sin):
        q = self.q_b(self.q_a(hidden_states)).view(-1, self.heads, self.nope + self.rope)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        absorbed, rotated = maybe_execute_in_parallel(
            lambda: self._absorb(q_nope),
            lambda: self._rotate(q_pe, cos[:, None], sin[:, None]),
            self.events[0],
            self.events[1],
            self.aux_stream,
        )
        return torch.cat((absorbed, rotated), dim=-1)
