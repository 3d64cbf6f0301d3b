"""Two expert banks: while one is computed on, the next layer's set is uploaded to the other."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass
class ExpertBank:
    w1: torch.Tensor
    w2: torch.Tensor
    layer: int = -1
    valid: set[int] = field(default_factory=set)
    filled: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    retired: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class HostExperts:
    def __init__(self, layers: int, experts: int, dim: int, hidden: int) -> None:
        self.experts = experts
        self.w1 = torch.randn(layers, experts, dim, hidden).mul_(0.02).half().pin_memory()
        self.w2 = torch.randn(layers, experts, hidden, dim).mul_(0.02).half().pin_memory()


class BankPair:
    def __init__(self, host: HostExperts) -> None:
        self.host = host
        self.aux = torch.cuda.Stream()
        self.banks = [
            ExpertBank(
                torch.empty(host.w1.shape[1:], dtype=torch.float16, device="cuda"),
                torch.empty(host.w2.shape[1:], dtype=torch.float16, device="cuda"),
            )
            for _ in range(2)
        ]
        self.active = 0
        self.aux.wait_stream(torch.cuda.current_stream())

    def _upload(self, bank: ExpertBank, layer: int, experts) -> None:
        with torch.cuda.stream(self.aux):
            for e in experts:
                bank.w1[e].copy_(self.host.w1[layer, e], non_blocking=True)
                bank.w2[e].copy_(self.host.w2[layer, e], non_blocking=True)
                bank.valid.add(e)
            bank.filled.record(self.aux)

    def prefetch(self, layer: int, budget: int) -> None:
        bank = self.banks[1 - self.active]
        if bank.layer == layer:
            return
        self.aux.wait_event(bank.retired)
        bank.layer, bank.valid = layer, set()
        self._upload(bank, layer, range(min(budget, self.host.experts)))

    def switch_to(self, layer: int, needed: list[int]) -> ExpertBank:
        spare = self.banks[1 - self.active]
        if spare.layer == layer:
            self.active = 1 - self.active
        bank = self.banks[self.active]
        if bank.layer != layer:
            self.aux.wait_event(bank.retired)
            bank.layer, bank.valid = layer, set()
        missing = [e for e in needed if e not in bank.valid]
        if missing:
            self._upload(bank, layer, missing)
        torch.cuda.current_stream().wait_event(bank.filled)
        return bank

    def done(self, bank: ExpertBank) -> None:
        bank.retired.record(torch.cuda.current_stream())


@torch.inference_mode()
def prefill(pair: BankPair, x: torch.Tensor, chunks: int, layers: int, top_k: int) -> torch.Tensor:
    gate = torch.randn(x.shape[1], pair.host.experts, device="cuda").half()
    for layer in range(layers):
        route = (x @ gate).topk(top_k, dim=-1).indices
        needed = route.unique().tolist()
        bank = pair.switch_to(layer, needed)
        if layer + 1 < layers:
            pair.prefetch(layer + 1, budget=pair.host.experts // 2)
        out = torch.zeros_like(x)
        for part_x, part_r, part_o in zip(x.chunk(chunks), route.chunk(chunks), out.chunk(chunks)):
            for e in needed:
                mask = (part_r == e).any(dim=-1, keepdim=True)
                part_o.add_(torch.relu(part_x @ bank.w1[e]) @ bank.w2[e] * mask)
        pair.done(bank)
        x = x + out / top_k
    return x


if __name__ == "__main__":
    experts = HostExperts(layers=6, experts=16, dim=512, hidden=1024)
    result = prefill(BankPair(experts), torch.randn(2048, 512, device="cuda").half(), 4, 6, 4)
    print(result.float().std().item())
