import enum
import queue
import threading
from typing import Dict, List, Optional

import torch
import torch.nn as nn


class State(enum.Enum):
    EMPTY = 0
    FETCHING = 1
    READY = 2


class Entry:
    def __init__(self, host: torch.Tensor):
        self.host = host
        self.state = State.EMPTY
        self.device: Optional[torch.Tensor] = None
        self.cond = threading.Condition()


class ExpertCache:
    """Every expert has a device home; weights arrive on first touch or by prefetch."""

    def __init__(self, experts: int, width: int, device: torch.device):
        self.device = device
        self.entries: List[Entry] = [
            Entry((torch.randn(width, width) / width ** 0.5).pin_memory()) for _ in range(experts)
        ]
        self.arena = torch.empty((experts, width, width), device=device)
        self.load_stream = torch.cuda.Stream(device=device)
        self.load_stream.wait_stream(torch.cuda.current_stream(device))
        self.requests: "queue.Queue[Optional[int]]" = queue.Queue()
        self.thread = threading.Thread(target=self._prefetch_loop, daemon=True)
        self.thread.start()

    def request(self, expert: int):
        entry = self.entries[expert]
        with entry.cond:
            if entry.state is not State.EMPTY:
                return
            entry.state = State.FETCHING
        self.requests.put(expert)

    def _prefetch_loop(self):
        torch.cuda.set_device(self.device)
        while True:
            expert = self.requests.get()
            if expert is None:
                return
            entry = self.entries[expert]
            slot = self.arena[expert]
            with torch.cuda.stream(self.load_stream):
                slot.copy_(entry.host, non_blocking=True)
            with entry.cond:
                entry.device = slot
                entry.state = State.READY
                entry.cond.notify_all()

    def acquire(self, expert: int) -> torch.Tensor:
        self.request(expert)
        entry = self.entries[expert]
        with entry.cond:
            entry.cond.wait_for(lambda: entry.state is State.READY)
        return entry.device

    def close(self):
        self.requests.put(None)
        self.thread.join()


class OffloadedMoE(nn.Module):
    def __init__(self, cache: ExpertCache, experts: int, width: int, top: int):
        super().__init__()
        self.cache = cache
        self.router = nn.Linear(width, experts, bias=False)
        self.top = top

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x).softmax(-1)
        chosen = scores.mean(0).topk(self.top).indices.tolist()
        for e in chosen:
            self.cache.request(e)
        out = torch.zeros_like(x)
        for e in chosen:
            w = self.cache.acquire(e)
            out += scores[:, e:e + 1] * torch.relu(x @ w)
        return x + out


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    width, experts = 2048, 32
    cache = ExpertCache(experts, width, device)
    moe = OffloadedMoE(cache, experts, width, top=4).to(device)
    usage: Dict[int, float] = {}
    for step in range(16):
        x = torch.randn(128, width, device=device)
        usage[step] = moe(x).norm().item()
    cache.close()
    print(usage)


if __name__ == "__main__":
    main()
