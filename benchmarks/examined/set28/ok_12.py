from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class Slot:
    def __init__(self, index):
        self.index = index
        self.uploaded = torch.cuda.Event()
        self.last_use = torch.cuda.Event()


class ExpertCache:
    """A fixed number of device slots shared by all experts of all layers."""

    def __init__(self, host_w1, host_w2, n_slots):
        self.host_w1, self.host_w2 = host_w1, host_w2
        _, _, d_in, d_ff = host_w1.shape
        self.w1 = torch.empty(n_slots, d_in, d_ff, dtype=host_w1.dtype, device="cuda")
        self.w2 = torch.empty(n_slots, d_ff, d_in, dtype=host_w2.dtype, device="cuda")
        self.copy_stream = torch.cuda.Stream()
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        self.resident = OrderedDict()
        self.empty = [Slot(i) for i in range(n_slots)]

    def _victim(self, protected):
        for key in self.resident:
            if key not in protected:
                return self.resident.pop(key)
        raise RuntimeError("more experts requested than there are slots")

    def fetch(self, layer, experts):
        wanted = [(layer, e) for e in experts]
        protected = set(wanted)
        for key in wanted:
            if key in self.resident:
                self.resident.move_to_end(key)
                continue
            slot = self.empty.pop() if self.empty else self._victim(protected)
            with torch.cuda.stream(self.copy_stream):
                self.copy_stream.wait_event(slot.last_use)
                self.w1[slot.index].copy_(self.host_w1[key], non_blocking=True)
                self.w2[slot.index].copy_(self.host_w2[key], non_blocking=True)
                slot.uploaded.record()
            self.resident[key] = slot
        return [self.resident[k] for k in wanted]


class OffloadedMoE(nn.Module):
    def __init__(self, layer, hidden, n_experts, top_k, cache):
        super().__init__()
        self.layer, self.top_k, self.cache = layer, top_k, cache
        self.router = nn.Linear(hidden, n_experts, bias=False)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(dim=-1).topk(self.top_k, dim=-1)
        routing = chosen.cpu()
        experts = sorted(set(routing.flatten().tolist()))
        out = torch.zeros_like(x)
        step = max(1, len(self.cache.w1) // 2)
        for start in range(0, len(experts), step):
            group = experts[start : start + step]
            for e, slot in zip(group, self.cache.fetch(self.layer, group)):
                rows, ranks = (routing == e).nonzero(as_tuple=True)
                rows, ranks = rows.cuda(), ranks.cuda()
                torch.cuda.current_stream().wait_event(slot.uploaded)
                h = F.silu(x[rows] @ self.cache.w1[slot.index]) @ self.cache.w2[slot.index]
                slot.last_use.record()
                out.index_add_(0, rows, h * weights[rows, ranks, None])
        return out


@torch.inference_mode()
def run(hidden=1024, ffn=2048, n_layers=12, n_experts=32, top_k=4, tokens=16, n_slots=24):
    w1 = torch.randn(n_layers, n_experts, hidden, ffn, dtype=torch.float16).mul_(0.02).pin_memory()
    w2 = torch.randn(n_layers, n_experts, ffn, hidden, dtype=torch.float16).mul_(0.02).pin_memory()
    cache = ExpertCache(w1, w2, n_slots)
    layers = nn.ModuleList(OffloadedMoE(i, hidden, n_experts, top_k, cache) for i in range(n_layers)).cuda().half()
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.float16)
    for layer in layers:
        x = x + layer(x)
    return x.float().norm().item()
