"""MoE layer whose experts live in pinned memory, with an LRU cache of device slots."""
from collections import OrderedDict

import torch
from torch import nn


class ExpertSlot:
    def __init__(self, hidden, ffn):
        self.up = torch.empty(hidden, ffn, device="cuda")
        self.down = torch.empty(ffn, hidden, device="cuda")
        self.ready = torch.cuda.Event()
        self.last_use = None


class ExpertCache:
    """Loads experts on a copy stream; a slot is refilled after its last reader."""

    def __init__(self, experts, hidden, ffn, slots):
        self.host = experts
        self.copy_stream = torch.cuda.Stream()
        self.free = [ExpertSlot(hidden, ffn) for _ in range(slots)]
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        self.resident = OrderedDict()
        self.hits = 0
        self.misses = 0

    def _victim(self, keep):
        if self.free:
            return self.free.pop()
        for expert in self.resident:
            if expert not in keep:
                return self.resident.pop(expert)
        raise RuntimeError("more experts needed than slots")

    def prepare(self, experts):
        """Start the loads of all experts of a call that are not resident."""
        for expert in experts:
            if expert in self.resident:
                self.hits += 1
                self.resident.move_to_end(expert)
                continue
            self.misses += 1
            slot = self._victim(set(experts))
            if slot.last_use is not None:
                self.copy_stream.wait_event(slot.last_use)
            up, down = self.host[expert]
            with torch.cuda.stream(self.copy_stream):
                slot.up.copy_(up, non_blocking=True)
                slot.down.copy_(down, non_blocking=True)
                slot.ready.record()
            self.resident[expert] = slot

    def use(self, expert, x):
        slot = self.resident[expert]
        current = torch.cuda.current_stream()
        current.wait_event(slot.ready)
        y = nn.functional.silu(x @ slot.up) @ slot.down
        slot.last_use = torch.cuda.Event()
        slot.last_use.record(current)
        return y


class OffloadedMoE:
    def __init__(self, n_experts, hidden, ffn, top_k, slots):
        self.gate = torch.randn(hidden, n_experts, device="cuda") * hidden ** -0.5
        host = []
        for _ in range(n_experts):
            up = (torch.randn(hidden, ffn) * hidden ** -0.5).pin_memory()
            down = (torch.randn(ffn, hidden) * ffn ** -0.5).pin_memory()
            host.append((up, down))
        self.cache = ExpertCache(host, hidden, ffn, slots)
        self.top_k = top_k
        self.chunk = slots

    def forward(self, x):
        weights, ids = (x @ self.gate).softmax(dim=-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        wanted = torch.unique(ids).tolist()
        for first in range(0, len(wanted), self.chunk):
            group = wanted[first:first + self.chunk]
            self.cache.prepare(group)
            for expert in group:
                token, rank = torch.where(ids == expert)
                y = self.cache.use(expert, x[token])
                out.index_add_(0, token, y * weights[token, rank].unsqueeze(-1))
        return out


@torch.no_grad()
def main():
    torch.manual_seed(0)
    moe = OffloadedMoE(n_experts=32, hidden=1024, ffn=2048, top_k=2, slots=6)
    x = torch.randn(64, 1024, device="cuda")
    for _ in range(12):
        x = torch.nn.functional.layer_norm(x + moe.forward(x), (1024,))
    print(x.abs().mean().item(), moe.cache.hits, moe.cache.misses)


if __name__ == "__main__":
    main()
