"""Saved-tensor offload on a copy stream, with a stash that bounds device memory."""
import argparse
from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


@dataclass
class StashConfig:
    min_numel: int = 1 << 18
    in_flight: int = 4


@dataclass
class Entry:
    host: torch.Tensor
    gone: torch.cuda.Event
    device: torch.device


class StashOffload(saved_tensors_hooks):
    def __init__(self, cfg: StashConfig):
        self.cfg = cfg
        self.copy = torch.cuda.Stream()
        self.entries: Dict[int, Entry] = {}
        self.stash: Deque[Tuple[torch.cuda.Event, torch.Tensor]] = deque()
        self.count = 0
        super().__init__(self._pack, self._unpack)

    def _trim(self) -> None:
        while len(self.stash) > self.cfg.in_flight:
            ev, t = self.stash.popleft()
            torch.cuda.current_stream().wait_event(ev)
            del t

    def _pack(self, t: torch.Tensor) -> Any:
        if not t.is_cuda or t.numel() < self.cfg.min_numel or isinstance(t, nn.Parameter):
            return t
        key = self.count
        self.count += 1
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.copy.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy):
            host.copy_(t.detach(), non_blocking=True)
            gone = torch.cuda.Event()
            gone.record()
        self.stash.append((gone, t.detach()))
        self._trim()
        self.entries[key] = Entry(host, gone, t.device)
        return key

    def _unpack(self, ref: Any) -> torch.Tensor:
        if torch.is_tensor(ref):
            return ref
        e = self.entries.pop(ref)
        self._release()
        torch.cuda.current_stream().wait_event(e.gone)
        return e.host.to(e.device, non_blocking=True)

    def _release(self) -> None:
        while self.stash:
            ev, t = self.stash.popleft()
            torch.cuda.current_stream().wait_event(ev)
            del t


class Gated(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.n = nn.LayerNorm(dim)
        self.g, self.u = nn.Linear(dim, 3 * dim), nn.Linear(dim, 3 * dim)
        self.d = nn.Linear(3 * dim, dim)

    def forward(self, x):
        h = self.n(x)
        return x + self.d(F.silu(self.g(h)) * self.u(h))


class Runner:
    def __init__(self, args):
        self.args = args
        self.dev = torch.device("cuda")
        self.net = nn.Sequential(*[Gated(args.dim) for _ in range(args.depth)]).to(self.dev)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.cfg = StashConfig()

    def step(self) -> float:
        x = torch.randn(self.args.batch, self.args.dim, device=self.dev)
        with StashOffload(self.cfg):
            loss = (self.net(x) - x.roll(1, 1)).pow(2).mean()
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--batch", type=int, default=4096)
    ap.add_argument("--steps", type=int, default=10)
    r = Runner(ap.parse_args())
    for i in range(r.args.steps):
        print(i, r.step())


if __name__ == "__main__":
    main()
