"""Sharded gradients with host-resident optimizer shards."""
import os
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class ShardOptions:
    world: int
    rank: int
    momentum: float = 0.9
    lr: float = 0.05
    nesterov: bool = False


class ShardGroup:
    """Parameters of one module, flattened and padded to the world size."""

    def __init__(self, module: nn.Module, opts: ShardOptions, device: torch.device):
        self.params = [p for p in module.parameters(recurse=False) if p.requires_grad]
        self.opts = opts
        n = sum(p.numel() for p in self.params)
        self.padded = (n + opts.world - 1) // opts.world * opts.world
        self.shard_numel = self.padded // opts.world
        self.flat_grad = torch.zeros(self.padded, device=device)
        self.grad_shard = torch.zeros(self.shard_numel, device=device)
        self.host_grad = torch.zeros(self.shard_numel)
        self.host_mom = torch.zeros(self.shard_numel)
        flat = torch.zeros(self.padded)
        off = 0
        for p in self.params:
            flat[off:off + p.numel()].copy_(p.detach().flatten().cpu())
            off += p.numel()
        lo = opts.rank * self.shard_numel
        self.host_param = flat[lo:lo + self.shard_numel].clone()
        self.pending = len(self.params)

    def pack(self) -> None:
        off = 0
        for p in self.params:
            self.flat_grad[off:off + p.numel()].copy_(p.grad.flatten())
            p.grad = None
            off += p.numel()

    def unpack_params(self, flat: torch.Tensor) -> None:
        off = 0
        for p in self.params:
            p.data.copy_(flat[off:off + p.numel()].view_as(p))
            off += p.numel()


class Reducer:
    def __init__(self, opts: ShardOptions, device: torch.device):
        self.opts = opts
        self.stream = torch.cuda.Stream(device)

    def launch(self, group: ShardGroup) -> None:
        group.pack()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.reduce_scatter_tensor(group.grad_shard, group.flat_grad)
            group.grad_shard.div_(self.opts.world)


class HostShardedSGD:
    def __init__(self, model: nn.Module, opts: ShardOptions, device: torch.device):
        self.opts = opts
        self.device = device
        self.reducer = Reducer(opts, device)
        self.groups: List[ShardGroup] = []
        self.owner: Dict[nn.Parameter, ShardGroup] = {}
        for m in model.modules():
            if any(True for _ in m.parameters(recurse=False)):
                g = ShardGroup(m, opts, device)
                self.groups.append(g)
                for p in g.params:
                    self.owner[p] = g
                    p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p: nn.Parameter) -> None:
        g = self.owner[p]
        g.pending -= 1
        if g.pending == 0:
            self.reducer.launch(g)

    def _pull(self, g: ShardGroup) -> torch.Tensor:
        g.host_grad.copy_(g.grad_shard)
        return g.host_grad

    def _apply(self, g: ShardGroup, grad: torch.Tensor) -> None:
        g.host_mom.mul_(self.opts.momentum).add_(grad)
        upd = grad.add(g.host_mom, alpha=self.opts.momentum) if self.opts.nesterov else g.host_mom
        g.host_param.add_(upd, alpha=-self.opts.lr)

    def _gather(self, g: ShardGroup) -> None:
        shard = g.host_param.to(self.device)
        full = torch.empty(g.padded, device=self.device)
        dist.all_gather_into_tensor(full, shard)
        g.unpack_params(full)

    @torch.no_grad()
    def step(self, only: Optional[int] = None) -> None:
        for i, g in enumerate(self.groups):
            if only is not None and i != only:
                continue
            self._apply(g, self._pull(g))
        for g in self.groups:
            self._gather(g)
            g.pending = len(g.params)
        torch.cuda.synchronize(self.device)


def build(width: int, depth: int) -> nn.Module:
    layers: List[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = build(2048, 6).to(device)
    opt = HostShardedSGD(model, ShardOptions(dist.get_world_size(), rank), device)
    for it in range(50):
        x = torch.randn(512, 2048, device=device)
        loss = (model(x).squeeze(-1) - x.mean(1)).pow(2).mean()
        loss.backward()
        opt.step()
        if rank == 0 and it % 10 == 0:
            print(it, float(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
