"""GPU cache of experts with on-demand upload for sparsely activated models."""
from collections import OrderedDict

import torch


class ExpertSlot:
    def __init__(self, dim):
        self.weight = torch.empty(dim, dim, device="cuda")
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.drained.record()


class ExpertCache:
    def __init__(self, host_experts, capacity):
        dim = host_experts[0].shape[0]
        self.host = [w.pin_memory() for w in host_experts]
        self.spare = [ExpertSlot(dim) for _ in range(capacity)]
        self.resident = OrderedDict()
        self.stream = torch.cuda.Stream()

    def fetch(self, idx):
        slot = self.resident.pop(idx, None)
        if slot is None:
            slot = self.spare.pop() if self.spare else self.resident.popitem(last=False)[1]
            self.stream.wait_event(slot.drained)
            with torch.cuda.stream(self.stream):
                slot.weight.copy_(self.host[idx], non_blocking=True)
            slot.filled.record(self.stream)
        self.resident[idx] = slot
        return slot

    def __call__(self, idx, x):
        slot = self.fetch(idx)
        slot.filled.wait()
        y = torch.relu(x @ slot.weight)
        slot.drained.record()
        return y


def main(dim=1024, experts=64, steps=100):
    cache = ExpertCache([torch.randn(dim, dim) / 32 for _ in range(experts)], 8)
    gate = torch.randn(dim, experts, device="cuda")
    x = torch.randn(4, dim, device="cuda")
    for _ in range(steps):
        chosen = (x @ gate).mean(0).topk(4).indices.tolist()
        y = sum(cache(e, x) for e in chosen)
        x = torch.nn.functional.layer_norm(x + y, (dim,))
    print(x.norm().item())


if __name__ == "__main__":
    main()
