"""Optimizer state sharding with consolidation on one rank before checkpointing."""
import io
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class ShardMeta:
    key: str
    shape: torch.Size
    dtype: torch.dtype


def map_state(value: Any, fn) -> Any:
    if torch.is_tensor(value):
        return fn(value)
    if isinstance(value, dict):
        return {k: map_state(v, fn) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_state(v, fn) for v in value)
    return value


def to_device(value: Any, device: torch.device, non_blocking: bool = False) -> Any:
    return map_state(value, lambda t: t.to(device, non_blocking=non_blocking))


class ShardedMomentum:
    """SGD-style optimizer; each rank owns the state of a subset of the parameters."""

    def __init__(self, named_params, lr: float = 0.1, momentum: float = 0.9):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.lr, self.momentum = lr, momentum
        self.named = OrderedDict((n, p) for n, p in named_params if p.requires_grad)
        self.owner: Dict[str, int] = {}
        load = [0] * self.world
        for n, p in sorted(self.named.items(), key=lambda kv: -kv[1].numel()):
            r = load.index(min(load))
            self.owner[n] = r
            load[r] += p.numel()
        self.state: Dict[str, Dict[str, torch.Tensor]] = {}
        for n, p in self.named.items():
            if self.owner[n] == self.rank:
                self.state[n] = {"buf": torch.zeros_like(p), "sq": torch.zeros_like(p)}
        self.steps = 0
        self._all: List[Dict[str, Any]] = []

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for n, p in self.named.items():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
            if self.owner[n] == self.rank:
                s = self.state[n]
                s["buf"].mul_(self.momentum).add_(p.grad)
                s["sq"].lerp_(p.grad.square(), 0.01)
                p.addcdiv_(s["buf"], s["sq"].sqrt().add(1e-6), value=-self.lr)
            dist.broadcast(p.data, src=self.owner[n])
            p.grad = None

    def _describe(self, rank: int) -> List[ShardMeta]:
        out = []
        for n, p in self.named.items():
            if self.owner[n] == rank:
                out += [ShardMeta(f"{n}/{k}", p.shape, p.dtype) for k in ("buf", "sq")]
        return out

    def _exchange(self, src: int, device: torch.device) -> Dict[str, torch.Tensor]:
        got: Dict[str, torch.Tensor] = {}
        for meta in self._describe(src):
            name, kind = meta.key.rsplit("/", 1)
            if self.rank == src:
                t = self.state[name][kind]
            else:
                t = torch.empty(meta.shape, dtype=meta.dtype, device=device)
            dist.broadcast(t, src=src)
            got[meta.key] = t
        return got

    def consolidate(self, device: torch.device, to: int = 0) -> None:
        self._all = []
        host = torch.device("cpu")
        for r in range(self.world):
            shard = self._exchange(r, device)
            if self.rank == to:
                self._all.append(to_device(shard, host, non_blocking=True))

    def state_dict(self) -> Dict[str, Any]:
        merged: Dict[str, torch.Tensor] = {}
        for shard in self._all:
            merged.update(shard)
        return {"steps": self.steps, "lr": self.lr, "state": merged}


class Checkpointer:
    def __init__(self, path: str):
        self.path = path
        self.saved = 0

    def save(self, payload: Dict[str, Any]) -> int:
        buf = io.BytesIO()
        torch.save(payload, buf)
        with open(f"{self.path}.{self.saved}", "wb") as f:
            f.write(buf.getbuffer())
        self.saved += 1
        return buf.tell()


class Trainer:
    def __init__(self, device: torch.device, every: int, path: str):
        self.device = device
        self.every = every
        torch.manual_seed(0)
        self.net = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(2048, 2048), nn.GELU())]).to(device)
        self.opt = ShardedMomentum(self.net.named_parameters(), lr=1e-3)
        self.ckpt = Checkpointer(path)

    def checkpoint(self) -> None:
        self.opt.consolidate(self.device)
        if self.opt.rank == 0:
            n = self.ckpt.save(self.opt.state_dict())
            print(f"checkpoint {self.ckpt.saved}: {n >> 20} MiB")

    def fit(self, steps: int) -> None:
        for it in range(1, steps + 1):
            x = torch.randn(256, 2048, device=self.device)
            loss = (self.net(x) - x).pow(2).mean()
            loss.backward()
            self.opt.step()
            if it % self.every == 0:
                self.checkpoint()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    Trainer(device, every=25, path="/tmp/opt.pt").fit(100)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
