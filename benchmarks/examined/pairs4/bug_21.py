"""Expert offloading for a mixture model: device slots filled ahead by hooks."""
import torch
from torch import nn


class ExpertSlots:
    """Device memory for a few experts, filled from page-locked weights."""

    def __init__(self, host_weights, count=2):
        self.host = [w.pin_memory() for w in host_weights]
        self.slots = torch.empty(count, *host_weights[0].shape, device="cuda")
        self.count = count
        self.lane = torch.cuda.Stream()
        self.lane.wait_stream(torch.cuda.current_stream())
        self.ready = [torch.cuda.Event() for _ in range(count)]

    def prefetch(self, expert):
        if expert >= len(self.host):
            return
        k = expert % self.count
        with torch.cuda.stream(self.lane):
            self.slots[k].copy_(self.host[expert], non_blocking=True)
            self.ready[k].record(self.lane)

    def use(self, expert):
        k = expert % self.count
        torch.cuda.current_stream().wait_event(self.ready[k])
        return self.slots[k]


class Expert(nn.Module):
    def __init__(self, index, slots):
        super().__init__()
        self.index, self.slots = index, slots
        self.weight = None
        self.register_forward_pre_hook(Expert.bind)
        self.register_forward_hook(Expert.advance)

    def bind(self, args):
        self.weight = self.slots.use(self.index)

    def advance(self, args, output):
        self.weight = None
        self.slots.prefetch(self.index + self.slots.count)

    def forward(self, x):
        return torch.nn.functional.silu(x @ self.weight)


@torch.inference_mode()
def main(experts=32, dim=4096):
    slots = ExpertSlots([torch.randn(dim, dim) / 64 for _ in range(experts)])
    layers = [Expert(i, slots) for i in range(experts)]
    out = []
    for _ in range(8):
        x = torch.randn(1024, dim, device="cuda")
        for i in range(slots.count):
            slots.prefetch(i)
        gates = torch.rand(experts, device="cuda")
        y = sum(gates[i] * layer(x) for i, layer in enumerate(layers))
        out.append(y.mean().item())
    print(out)


if __name__ == "__main__":
    main()
