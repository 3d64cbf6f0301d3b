"""Expert weights cached on the device for a mixture layer."""
from collections import OrderedDict

import torch
from torch import nn


class ExpertSlot:
    def __init__(self, dim, hidden):
        self.w1 = torch.empty(hidden, dim, device="cuda")
        self.w2 = torch.empty(dim, hidden, device="cuda")
        self.owner = None

    def __call__(self, x):
        return torch.relu(x @ self.w1.t()) @ self.w2.t()


class ExpertCache:
    def __init__(self, host_experts, slots, dim, hidden):
        self.host = host_experts
        self.slots = [ExpertSlot(dim, hidden) for _ in range(slots)]
        self.where: OrderedDict[int, ExpertSlot] = OrderedDict()
        self.stream = torch.cuda.Stream()

    def fetch_all(self, wanted: list) -> dict:
        missing = [e for e in wanted if e not in self.where]
        for e in wanted:
            if e in self.where:
                self.where.move_to_end(e)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for e in missing:
                if len(self.where) < len(self.slots):
                    slot = self.slots[len(self.where)]
                else:
                    _, slot = self.where.popitem(last=False)
                w1, w2 = self.host[e]
                slot.w1.copy_(w1, non_blocking=True)
                slot.w2.copy_(w2, non_blocking=True)
                slot.owner = e
                self.where[e] = slot
        torch.cuda.current_stream().wait_stream(self.stream)
        return {e: self.where[e] for e in wanted}


class MoE(nn.Module):
    def __init__(self, dim=256, hidden=1024, experts=8, slots=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        host = [
            (torch.randn(hidden, dim).mul_(0.02).pin_memory(), torch.randn(dim, hidden).mul_(0.02).pin_memory())
            for _ in range(experts)
        ]
        self.cache = ExpertCache(host, slots, dim, hidden)
        self.slots = slots

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        wanted = choice.unique().tolist()
        for start in range(0, len(wanted), self.slots):
            loaded = self.cache.fetch_all(wanted[start:start + self.slots])
            for e, expert in loaded.items():
                rows = (choice == e).nonzero(as_tuple=True)[0]
                out.index_copy_(0, rows, expert(x[rows]))
        return x + out


@torch.inference_mode()
def main():
    layer = MoE().cuda()
    x = torch.randn(64, 256, device="cuda")
    for _ in range(4):
        x = layer(x)
    print(x.norm().item())


if __name__ == "__main__":
    main()
