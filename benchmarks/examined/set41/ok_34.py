"""Snapshot of sharded optimizer state: per-rank copies stay asynchronous, then one fence."""
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class Snapshot:
    step: int
    tensors: Dict[str, torch.Tensor] = field(default_factory=dict)

    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


class StateSharder:
    def __init__(self, model: nn.Module, lr: float):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.names = [n for n, _ in model.named_parameters()]
        self.params = dict(model.named_parameters())
        self.owner = {n: i % self.world for i, n in enumerate(self.names)}
        self.lr = lr
        self.exp = {n: torch.zeros_like(p) for n, p in self.params.items() if self.owner[n] == self.rank}

    @torch.no_grad()
    def step(self) -> None:
        for n in self.names:
            p = self.params[n]
            dist.reduce(p.grad, dst=self.owner[n], op=dist.ReduceOp.AVG)
            if self.owner[n] == self.rank:
                self.exp[n].lerp_(p.grad, 0.1)
                p.sub_(self.exp[n].sign(), alpha=self.lr)
            dist.broadcast(p.data, src=self.owner[n])
            p.grad = None

    def collect(self, n: str) -> torch.Tensor:
        t = self.exp[n] if self.owner[n] == self.rank else torch.empty_like(self.params[n])
        dist.broadcast(t, src=self.owner[n])
        return t


class Snapshotter:
    def __init__(self, sharder: StateSharder, dst: int = 0):
        self.sharder, self.dst = sharder, dst

    def _offload(self, t: torch.Tensor) -> torch.Tensor:
        return t.detach().to("cpu", non_blocking=True)

    def take(self, step: int) -> Snapshot:
        snap = Snapshot(step)
        for n in self.sharder.names:
            moment = self.sharder.collect(n)
            if self.sharder.rank == self.dst:
                snap.tensors[f"exp/{n}"] = self._offload(moment)
                snap.tensors[f"param/{n}"] = self._offload(self.sharder.params[n])
        self._fence()
        return snap

    def _fence(self) -> None:
        ev = torch.cuda.Event()
        ev.record()
        ev.synchronize()


class Store:
    def __init__(self, root: str):
        self.root = root
        self.history: List[Dict[str, Any]] = []
        os.makedirs(root, exist_ok=True)

    def write(self, snap: Snapshot) -> None:
        path = os.path.join(self.root, f"step{snap.step}.pt")
        torch.save(snap.tensors, path)
        self.history.append({"step": snap.step, "bytes": snap.nbytes(), "path": path})


def main():
    dist.init_process_group("nccl")
    dev = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(dev)
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Sequential(nn.Linear(1536, 1536), nn.SiLU()) for _ in range(8)]).to(dev)
    opt = StateSharder(net, lr=1e-4)
    snaps = Snapshotter(opt)
    store = Store("/tmp/snapshots")
    for it in range(1, 61):
        x = torch.randn(256, 1536, device=dev)
        (net(x) - x).abs().mean().backward()
        opt.step()
        if it % 20 == 0:
            s = snaps.take(it)
            if dist.get_rank() == 0:
                store.write(s)
    if dist.get_rank() == 0:
        print(store.history)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
