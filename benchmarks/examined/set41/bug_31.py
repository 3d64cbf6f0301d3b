"""Sharded optimizer whose parameter gathers are launched ahead of the next forward."""
import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class DistOptions:
    overlap_gather: bool = True
    bucket_mb: int = 32
    lr: float = 1e-3
    betas: tuple = (0.9, 0.95)
    weight_decay: float = 0.1


class ParamBucket:
    def __init__(self, params: List[nn.Parameter], rank: int, world: int):
        self.params = params
        dev, dt = params[0].device, params[0].dtype
        n = sum(p.numel() for p in params)
        self.numel = (n + world - 1) // world * world
        self.full = torch.zeros(self.numel, device=dev, dtype=dt)
        self.grad = torch.zeros(self.numel, device=dev, dtype=dt)
        off = 0
        for p in params:
            view = self.full[off:off + p.numel()].view_as(p)
            view.copy_(p.data)
            p.data = view
            p.grad = self.grad[off:off + p.numel()].view_as(p)
            off += p.numel()
        k = self.numel // world
        self.shard = self.full[rank * k:(rank + 1) * k]
        self.grad_shard = self.grad[rank * k:(rank + 1) * k]
        self.master = self.shard.float()
        self.m = torch.zeros_like(self.master)
        self.v = torch.zeros_like(self.master)
        self.gathered = torch.cuda.Event()
        self.in_flight = False


class GatherEngine:
    def __init__(self, opts: DistOptions, device: torch.device):
        self.opts = opts
        self.stream: Optional[torch.cuda.Stream] = None
        if opts.overlap_gather:
            self.stream = torch.cuda.Stream(device)

    def start(self, b: ParamBucket) -> None:
        ctx = torch.cuda.stream(self.stream) if self.stream is not None else nullcontext()
        with ctx:
            dist.all_gather_into_tensor(b.full, b.shard)
            b.gathered.record()
        b.in_flight = True

    def finish(self, b: ParamBucket) -> None:
        if b.in_flight:
            torch.cuda.current_stream().wait_event(b.gathered)
            b.in_flight = False


class ShardedAdamW:
    def __init__(self, model: nn.Module, opts: DistOptions, device: torch.device):
        self.opts = opts
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.buckets: List[ParamBucket] = []
        self.where: Dict[nn.Parameter, ParamBucket] = {}
        self._bucketise([p for p in model.parameters() if p.requires_grad])
        self.engine = GatherEngine(opts, device)
        self.t = 0
        for m in model.modules():
            if list(m.parameters(recurse=False)):
                m.register_forward_pre_hook(self._pre_forward)

    def _bucketise(self, params: List[nn.Parameter]) -> None:
        cap = self.opts.bucket_mb << 20
        cur, size = [], 0
        for p in params:
            cur.append(p)
            size += p.numel() * p.element_size()
            if size >= cap:
                self._close(cur)
                cur, size = [], 0
        if cur:
            self._close(cur)

    def _close(self, params: List[nn.Parameter]) -> None:
        b = ParamBucket(params, self.rank, self.world)
        self.buckets.append(b)
        for p in params:
            self.where[p] = b

    def _pre_forward(self, module: nn.Module, inputs) -> None:
        for p in module.parameters(recurse=False):
            self.engine.finish(self.where[p])

    def reduce(self) -> None:
        for b in self.buckets:
            dist.reduce_scatter_tensor(b.grad_shard, b.grad, op=dist.ReduceOp.AVG)

    def _adam(self, b: ParamBucket) -> None:
        g = b.grad_shard.float()
        b1, b2 = self.opts.betas
        b.m.lerp_(g, 1 - b1)
        b.v.mul_(b2).addcmul_(g, g, value=1 - b2)
        mh = b.m / (1 - b1 ** self.t)
        vh = b.v / (1 - b2 ** self.t)
        b.master.mul_(1 - self.opts.lr * self.opts.weight_decay)
        b.master.addcdiv_(mh, vh.sqrt_().add_(1e-8), value=-self.opts.lr)
        b.shard.copy_(b.master)

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        self.reduce()
        for b in self.buckets:
            self._adam(b)
            self.engine.start(b)

    @torch.no_grad()
    def zero_grad(self) -> None:
        for b in self.buckets:
            b.grad.zero_()


class Net(nn.Module):
    def __init__(self, width: int = 2048, depth: int = 8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        for l in self.layers:
            x = torch.relu(l(x)) + x
        return self.out(x)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    net = Net().to(device, torch.bfloat16)
    opt = ShardedAdamW(net, DistOptions(), device)
    for it in range(100):
        x = torch.randn(256, 2048, device=device, dtype=torch.bfloat16)
        y = torch.randint(10, (256,), device=device)
        loss = nn.functional.cross_entropy(net(x).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if dist.get_rank() == 0:
        print("final", loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
