import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class SideStreamModule(nn.Module):
    def __init__(self):
        super().__init__()
        self._side = None
        self._result = None

    @property
    def side(self):
        if self._side is None:
            self._side = torch.cuda.Stream()
        return self._side

    @contextlib.contextmanager
    def fork(self, *inputs):
        for t in inputs:
            t.record_stream(self.side)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            yield

    def join(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.side)
        result, self._result = self._result, None
        result.record_stream(current)
        return result


class DenseMLP(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class GenericMoeLayer(SideStreamModule):
    def __init__(self, hidden, inter, num_experts, top_k):
        super().__init__()
        self.router = nn.Linear(hidden, num_experts, bias=False)
        self.experts = nn.ModuleList(DenseMLP(hidden, inter) for _ in range(num_experts))
        self.shared_expert = DenseMLP(hidden, inter)
        self.shared_gate = nn.Linear(hidden, 1, bias=False)
        self.top_k = top_k

    def _start_shared(self, x):
        with self.fork(x):
            self._result = torch.sigmoid(self.shared_gate(x)) * self.shared_expert(x)

    @torch.no_grad()
    def forward(self, x):
        self._start_shared(x)
        weights, ids = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            w = (weights * (ids == e)).sum(-1, keepdim=True)
            out.addcmul_(expert(x), w.expand_as(x))
        return out.add_(self.join())
