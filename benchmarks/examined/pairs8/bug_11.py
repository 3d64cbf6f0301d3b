import torch


class AdapterCache:
    """Fixed number of device slots for adapters, replaced in LRU order."""

    def __init__(self, capacity, hidden, rank):
        self.weights = torch.empty(capacity, 2, rank, hidden, device="cuda")
        self.slot_of = {}
        self.ready = [torch.cuda.Event() for _ in range(capacity)]
        self.lru = list(range(capacity))
        self.copy_stream = torch.cuda.Stream()

    def fetch(self, adapter_id, cpu_weights):
        if adapter_id in self.slot_of:
            slot = self.slot_of[adapter_id]
            self.lru.remove(slot)
            self.lru.append(slot)
            return slot
        slot = self.lru.pop(0)
        self.slot_of = {k: v for k, v in self.slot_of.items() if v != slot}
        with torch.cuda.stream(self.copy_stream):
            self.weights[slot].copy_(cpu_weights, non_blocking=True)
            self.ready[slot].record(self.copy_stream)
        self.slot_of[adapter_id] = slot
        self.lru.append(slot)
        return slot


class LoRALinear:
    def __init__(self, cache, hidden):
        self.cache = cache
        self.base = torch.randn(hidden, hidden, device="cuda") / hidden**0.5

    def __call__(self, x, adapter_id, cpu_weights):
        slot = self.cache.fetch(adapter_id, cpu_weights)
        self.cache.ready[slot].wait()
        down, up = self.cache.weights[slot]
        return x @ self.base + (x @ down.T) @ up


def main():
    store = [torch.randn(2, 8, 2048).pin_memory() for _ in range(12)]
    layer = LoRALinear(AdapterCache(2, 2048, 8), 2048)
    x = torch.randn(256, 2048, device="cuda")
    for request in range(100):
        aid = request % len(store)
        x = torch.tanh(layer(x, aid, store[aid]))
    print(x.mean().item())


if __name__ == "__main__":
    main()
