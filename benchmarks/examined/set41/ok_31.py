"""ZeRO-1 style optimizer; parameters are gathered on a side stream after the update."""
import os
from dataclasses import dataclass
from typing import Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class ZeroArgs:
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.99
    group_size: int = 3


class Partition:
    def __init__(self, params: List[nn.Parameter], rank: int, world: int):
        self.params = params
        n = sum(p.numel() for p in params)
        pad = -(-n // world) * world
        self.flat = torch.zeros(pad, device=params[0].device)
        self.grad = torch.zeros_like(self.flat)
        off = 0
        for p in params:
            v = self.flat[off:off + p.numel()].view_as(p)
            v.copy_(p.data)
            p.data = v
            p.grad = self.grad[off:off + p.numel()].view_as(p)
            off += p.numel()
        k = pad // world
        self.mine = slice(rank * k, (rank + 1) * k)
        self.m = torch.zeros(k, device=self.flat.device)
        self.v = torch.zeros(k, device=self.flat.device)
        self.updated = torch.cuda.Event()
        self.complete = torch.cuda.Event()


class ZeroOptimizer:
    def __init__(self, model: nn.Module, args: ZeroArgs, device: torch.device):
        self.args = args
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        params = list(model.parameters())
        g = args.group_size
        self.parts = [Partition(params[i:i + g], self.rank, self.world) for i in range(0, len(params), g)]
        self.of: Dict[nn.Parameter, Partition] = {p: q for q in self.parts for p in q.params}
        self.stream = torch.cuda.Stream(device)
        self.t = 0
        for mod in model.modules():
            own = list(mod.parameters(recurse=False))
            if own:
                mod.register_forward_pre_hook(self._make_hook(own))

    def _make_hook(self, own: List[nn.Parameter]):
        parts = list({id(self.of[p]): self.of[p] for p in own}.values())

        def hook(_mod, _inp):
            for q in parts:
                q.complete.wait()

        return hook

    def _local_update(self, q: Partition) -> None:
        dist.reduce_scatter_tensor(q.grad[q.mine], q.grad, op=dist.ReduceOp.AVG)
        g = q.grad[q.mine]
        q.m.lerp_(g, 1 - self.args.beta1)
        q.v.lerp_(g.square(), 1 - self.args.beta2)
        mh = q.m / (1 - self.args.beta1 ** self.t)
        vh = q.v / (1 - self.args.beta2 ** self.t)
        q.flat[q.mine].addcdiv_(mh, vh.sqrt() + 1e-8, value=-self.args.lr)
        q.grad.zero_()
        q.updated.record()

    def _publish(self, q: Partition) -> None:
        self.stream.wait_event(q.updated)
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(q.flat, q.flat[q.mine])
            q.complete.record()

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        for q in self.parts:
            self._local_update(q)
            self._publish(q)


class ResNetish(nn.Module):
    def __init__(self, dim: int, depth: int, classes: int):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth))
        self.cls = nn.Linear(dim, classes)

    def forward(self, x):
        for b in self.blocks:
            x = x + b(x)
        return self.cls(x)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.manual_seed(3)
    net = ResNetish(1024, 10, 20).to(device)
    opt = ZeroOptimizer(net, ZeroArgs(), device)
    lossf = nn.CrossEntropyLoss()
    for it in range(60):
        x = torch.randn(512, 1024, device=device)
        y = x[:, :20].argmax(1)
        loss = lossf(net(x), y)
        loss.backward()
        opt.step()
        if it % 20 == 0 and dist.get_rank() == 0:
            print(it, loss.item())
    torch.cuda.synchronize(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
