"""KV tiering: slots are recycled at once, transfers share the executor's stream."""
import collections
from dataclasses import dataclass
from typing import Deque, Dict, List, NamedTuple, Tuple

import torch


@dataclass
class Tiers:
    layers: int = 6
    slots: int = 128
    pages: int = 4096
    width: int = 768
    batch: int = 24
    dtype: torch.dtype = torch.bfloat16


class Move(NamedTuple):
    req: int
    slot: int
    page: int


class Directory:
    def __init__(self, t: Tiers):
        self.t = t
        self.free_slots: Deque[int] = collections.deque(range(t.slots))
        self.free_pages: Deque[int] = collections.deque(range(t.pages))
        self.lru: "collections.OrderedDict[int, int]" = collections.OrderedDict()
        self.on_host: Dict[int, int] = {}
        self.serial = 0

    def admit(self, n: int) -> Tuple[List[Move], List[int]]:
        moves: List[Move] = []
        while len(self.free_slots) < n:
            req, slot = self.lru.popitem(last=False)
            page = self.free_pages.popleft()
            self.on_host[req] = page
            moves.append(Move(req, slot, page))
            self.free_slots.appendleft(slot)
        slots = []
        for _ in range(n):
            s = self.free_slots.popleft()
            self.lru[self.serial] = s
            self.serial += 1
            slots.append(s)
        return moves, slots


class Executor:
    """All device work of the engine, compute and transfers alike, is put on one stream."""

    def __init__(self, t: Tiers, device: torch.device):
        self.t, self.device = t, device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.kv = torch.zeros(t.slots, t.layers, t.width, dtype=t.dtype, device=device)
            self.w = torch.randn(t.layers, t.width, t.width, dtype=t.dtype, device=device) / t.width ** 0.5
        self.host = torch.zeros(t.pages, t.layers, t.width, dtype=t.dtype, pin_memory=True)
        self.marks: Deque[Tuple[torch.cuda.Event, List[int]]] = collections.deque()

    def write_back(self, moves: List[Move]) -> None:
        if not moves:
            return
        with torch.cuda.stream(self.stream):
            for m in moves:
                self.host[m.page].copy_(self.kv[m.slot], non_blocking=True)
            ev = torch.cuda.Event()
            ev.record()
        self.marks.append((ev, [m.page for m in moves]))

    def forward(self, slots: List[int], x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            idx = torch.tensor(slots).to(self.device)
            for l in range(self.t.layers):
                x = torch.tanh(x @ self.w[l])
                self.kv[idx, l] = x
        return x

    def landed(self, wait: bool = False) -> List[int]:
        pages: List[int] = []
        while self.marks and (wait or self.marks[0][0].query()):
            ev, ps = self.marks.popleft()
            ev.synchronize()
            pages += ps
        return pages


class Loop:
    def __init__(self, t: Tiers):
        self.t = t
        self.ex = Executor(t, torch.device("cuda"))
        self.dir = Directory(t)
        self.sums: List[float] = []

    @torch.inference_mode()
    def run(self, iters: int) -> None:
        with torch.cuda.stream(self.ex.stream):
            x = torch.randn(self.t.batch, self.t.width, device="cuda", dtype=self.t.dtype)
        for _ in range(iters):
            moves, slots = self.dir.admit(self.t.batch)
            self.ex.write_back(moves)
            x = self.ex.forward(slots, x)
            self._check(self.ex.landed())
        self._check(self.ex.landed(wait=True))

    def _check(self, pages: List[int]) -> None:
        for p in pages:
            self.sums.append(self.ex.host[p].float().abs().mean().item())


def main():
    loop = Loop(Tiers())
    loop.run(48)
    print(len(loop.sums), loop.sums[-1])


if __name__ == "__main__":
    main()
