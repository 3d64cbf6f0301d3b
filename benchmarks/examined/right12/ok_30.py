from collections import OrderedDict

import torch
import torch.nn.functional as F


class ExpertCache:
    """Least-recently-used device copies of experts that live in pinned host memory."""

    def __init__(self, experts, width, capacity, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.width = width
        gen = torch.Generator().manual_seed(0)
        self.host = [(torch.randn(width, width, generator=gen) / width ** 0.5).pin_memory()
                     for _ in range(experts)]
        self.loader = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.loader):
            self.store = torch.empty(capacity, width, width, device=self.device)
        self.slots = OrderedDict()
        self.vacant = list(range(capacity))
        self.loaded = {}
        self.last_use = {}

    def prefetch(self, expert, keep=()):
        if expert in self.slots:
            self.slots.move_to_end(expert)
            return True
        if self.vacant:
            slot = self.vacant.pop()
        else:
            victim = next((name for name in self.slots if name not in keep), None)
            if victim is None:
                return False
            slot = self.slots.pop(victim)
        with torch.cuda.stream(self.loader):
            for event in self.last_use.pop(slot, {}).values():
                self.loader.wait_event(event)
            self.store[slot].copy_(self.host[expert], non_blocking=True)
            self.loaded[slot] = self.loader.record_event()
        self.slots[expert] = slot
        return True

    def apply(self, expert, x):
        self.prefetch(expert)
        slot = self.slots[expert]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.loaded[slot])
        self.store.record_stream(current)
        try:
            return F.silu(F.linear(x, self.store[slot]))
        finally:
            uses = self.last_use.setdefault(slot, {})
            uses[current.cuda_stream] = current.record_event()


class RoutedLayer:
    def __init__(self, cache, experts, width):
        self.cache = cache
        self.gate = torch.randn(width, experts, device=cache.device) / width ** 0.5

    @torch.no_grad()
    def __call__(self, x):
        choice = (x @ self.gate).argmax(1)
        order = torch.argsort(choice)
        counts = torch.bincount(choice, minlength=self.gate.shape[1]).tolist()
        active = [expert for expert, count in enumerate(counts) if count]
        grouped = x[order].split([counts[expert] for expert in active])
        outputs = []
        for position, (expert, rows) in enumerate(zip(active, grouped)):
            if position + 1 < len(active):
                self.cache.prefetch(active[position + 1], keep=(expert,))
            outputs.append(self.cache.apply(expert, rows))
        result = torch.empty_like(x)
        result[order] = torch.cat(outputs)
        return x + result


def main():
    cache = ExpertCache(experts=16, width=256, capacity=4)
    layer = RoutedLayer(cache, 16, 256)
    x = torch.randn(512, 256, device="cuda")
    once = layer(x)
    again = layer(x)
    print((once - again).abs().max().item())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        third = layer(x[:100])
    fourth = layer(x)
    torch.cuda.current_stream().wait_stream(side)
    third.record_stream(torch.cuda.current_stream())
    print((third - once[:100]).abs().max().item(), (fourth - once).abs().max().item())


if __name__ == "__main__":
    main()
