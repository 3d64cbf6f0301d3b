from collections import OrderedDict

import torch
from torch import nn


class ExpertSlot:
    def __init__(self, d_in, d_out):
        self.weight = torch.empty(d_out, d_in, device="cuda", dtype=torch.float16)
        self.loaded = torch.cuda.Event()
        self.used = torch.cuda.Event()

    def apply(self, x):
        stream = torch.cuda.current_stream()
        stream.wait_event(self.loaded)
        out = x @ self.weight.t()
        self.used.record(stream)
        return out


class ExpertCache:
    def __init__(self, experts, capacity):
        self.experts = [w.half().pin_memory() for w in experts]
        d_out, d_in = self.experts[0].shape
        self.spare = [ExpertSlot(d_in, d_out) for _ in range(capacity)]
        self.resident: OrderedDict[int, ExpertSlot] = OrderedDict()
        self.copy = torch.cuda.Stream()
        self.copy.wait_stream(torch.cuda.current_stream())

    def _slot_for(self, expert):
        slot = self.resident.pop(expert, None)
        if slot is None:
            slot = self.spare.pop() if self.spare else self.resident.popitem(last=False)[1]
            with torch.cuda.stream(self.copy):
                self.copy.wait_event(slot.used)
                slot.weight.copy_(self.experts[expert], non_blocking=True)
                slot.loaded.record()
        self.resident[expert] = slot
        return slot

    def prefetch(self, experts):
        for e in experts[: len(self.resident) + len(self.spare)]:
            self._slot_for(e)

    def __call__(self, expert, x):
        return self._slot_for(expert).apply(x)


class OffloadedMoe(nn.Module):
    def __init__(self, gate, cache, top_k=2):
        super().__init__()
        self.gate, self.cache, self.top_k = gate, cache, top_k

    @torch.no_grad()
    def forward(self, x):
        weights, picked = self.gate(x).softmax(-1).topk(self.top_k, dim=-1)
        chosen = picked.unique().tolist()
        self.cache.prefetch(chosen)
        out = torch.zeros_like(x)
        for e in chosen:
            rows, slot = (picked == e).nonzero(as_tuple=True)
            out.index_add_(0, rows, self.cache(e, x[rows]) * weights[rows, slot, None])
        return out


def main():
    experts = [torch.randn(512, 512) / 23 for _ in range(32)]
    moe = OffloadedMoe(nn.Linear(512, 32, bias=False).cuda().half(), ExpertCache(experts, 6))
    x = torch.randn(128, 512, device="cuda", dtype=torch.float16)
    for _ in range(10):
        x = moe(x) + x
    print(x.abs().max().item())
