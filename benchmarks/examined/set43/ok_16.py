from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import List, Optional

import torch
import torch.nn as nn


class Slot:
    def __init__(self, weight: torch.Tensor):
        self.weight = weight
        self.last_use: Optional[torch.cuda.Event] = None


class Loader:
    def __init__(self, host: List[torch.Tensor], device: torch.device):
        self.host = host
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.executor = ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(device,))

    def submit(self, expert: int, slot: Slot) -> Future:
        return self.executor.submit(self._load, expert, slot.weight, slot.last_use)

    def _load(self, expert: int, dst: torch.Tensor, after: Optional[torch.cuda.Event]):
        if after is not None:
            self.stream.wait_event(after)
        with torch.cuda.stream(self.stream):
            dst.copy_(self.host[expert], non_blocking=True)
            loaded = torch.cuda.Event()
            loaded.record()
        return loaded


class LRUExperts:
    def __init__(self, host: List[torch.Tensor], slots: int, device: torch.device):
        width = host[0].shape[0]
        self.free = [Slot(torch.empty((width, width), device=device)) for _ in range(slots)]
        self.resident: "OrderedDict[int, tuple]" = OrderedDict()
        self.loader = Loader(host, device)
        self.loader.stream.wait_stream(torch.cuda.current_stream(device))

    def prefetch(self, expert: int):
        if expert in self.resident:
            self.resident.move_to_end(expert)
            return
        if self.free:
            slot = self.free.pop()
        else:
            _, (slot, pending) = self.resident.popitem(last=False)
            pending.result()
        self.resident[expert] = (slot, self.loader.submit(expert, slot))

    def apply(self, expert: int, x: torch.Tensor) -> torch.Tensor:
        self.prefetch(expert)
        slot, pending = self.resident[expert]
        torch.cuda.current_stream().wait_event(pending.result())
        y = x @ slot.weight
        slot.last_use = torch.cuda.current_stream().record_event()
        return y


class MoE(nn.Module):
    def __init__(self, experts: LRUExperts, count: int, width: int):
        super().__init__()
        self.experts = experts
        self.gate = nn.Linear(width, count, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = self.gate(x).softmax(-1)
        order = score.mean(0).topk(3).indices.tolist()
        for e in order:
            self.experts.prefetch(e)
        for e in order:
            x = x + score[:, e:e + 1] * torch.tanh(self.experts.apply(e, x))
        return x


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    width, count = 1536, 24
    host = [(torch.randn(width, width) / width).pin_memory() for _ in range(count)]
    experts = LRUExperts(host, slots=6, device=device)
    moe = MoE(experts, count, width).to(device)
    for step in range(30):
        y = moe(torch.randn(64, width, device=device))
        if step % 10 == 0:
            print(step, y.norm().item())
    experts.loader.executor.shutdown()


if __name__ == "__main__":
    main()
