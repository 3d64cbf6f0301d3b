"""Gradient shards reduced and offloaded on one communication stream."""
import os
from dataclasses import dataclass, field
from typing import Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class ShardState:
    params: List[nn.Parameter]
    flat: torch.Tensor
    shard: torch.Tensor
    host: torch.Tensor
    master: torch.Tensor
    arrived: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    left: int = 0


class CommOffloader:
    def __init__(self, model: nn.Module, device: torch.device, lr: float):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device, self.lr = device, lr
        self.stream = torch.cuda.Stream(device)
        self.states: List[ShardState] = []
        self.index: Dict[nn.Parameter, ShardState] = {}
        for m in model.children():
            ps = [p for p in m.parameters() if p.requires_grad]
            if ps:
                self._register(ps)

    def _register(self, ps: List[nn.Parameter]) -> None:
        n = sum(p.numel() for p in ps)
        pad = -(-n // self.world) * self.world
        k = pad // self.world
        flat = torch.zeros(pad, device=self.device)
        src = torch.zeros(pad)
        src[:n] = torch.cat([p.detach().flatten().cpu() for p in ps])
        st = ShardState(
            ps, flat, torch.zeros(k, device=self.device), torch.zeros(k, pin_memory=True),
            src[self.rank * k:(self.rank + 1) * k].clone(), left=len(ps),
        )
        self.states.append(st)
        for p in ps:
            self.index[p] = st
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p: nn.Parameter) -> None:
        st = self.index[p]
        st.left -= 1
        if st.left:
            return
        off = 0
        for q in st.params:
            st.flat[off:off + q.numel()] = q.grad.flatten()
            q.grad = None
            off += q.numel()
        self._ship(st)

    def _ship(self, st: ShardState) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            dist.reduce_scatter_tensor(st.shard, st.flat, op=dist.ReduceOp.AVG)
            st.host.copy_(st.shard, non_blocking=True)
            st.arrived.record()

    @torch.no_grad()
    def step(self) -> None:
        for st in reversed(self.states):
            st.arrived.synchronize()
            st.master.add_(st.host, alpha=-self.lr)
        for st in self.states:
            full = torch.empty_like(st.flat)
            dist.all_gather_into_tensor(full, st.master.to(self.device))
            off = 0
            for p in st.params:
                p.data.copy_(full[off:off + p.numel()].view_as(p))
                off += p.numel()
            st.left = len(st.params)


class Wide(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        for i in range(depth):
            setattr(self, f"l{i}", nn.Linear(dim, dim))
        self.depth = depth

    def forward(self, x):
        for i in range(self.depth):
            x = torch.relu(getattr(self, f"l{i}")(x)) + x
        return x


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    net = Wide(2048, 8).to(device)
    opt = CommOffloader(net, device, lr=1e-4)
    for it in range(50):
        x = torch.randn(256, 2048, device=device)
        loss = (net(x) - x.roll(1, 1)).pow(2).mean()
        loss.backward()
        opt.step()
        if it % 10 == 0 and dist.get_rank() == 0:
            print(it, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
