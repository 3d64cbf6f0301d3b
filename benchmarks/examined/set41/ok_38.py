"""Overlapped gradient averaging: the optimizer drains each handle just before its use."""
import os
from dataclasses import dataclass
from typing import Dict, Iterator, List

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TrainArgs:
    dim: int = 1024
    depth: int = 10
    vocab: int = 16384
    seq: int = 256
    batch: int = 8
    steps: int = 100


class MixerLM(nn.Module):
    def __init__(self, a: TrainArgs):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.mix = nn.ModuleList(nn.Linear(a.dim, a.dim, bias=False) for _ in range(a.depth))
        self.head = nn.Linear(a.dim, a.vocab, bias=False)

    def forward(self, idx):
        x = self.emb(idx)
        for m in self.mix:
            x = x + F.gelu(m(F.rms_norm(x.cumsum(1), (x.size(-1),))))
        return self.head(x)


class HandleTable:
    def __init__(self):
        self.handles: Dict[nn.Parameter, dist.Work] = {}

    def attach(self, params: List[nn.Parameter]) -> None:
        for p in params:
            p.register_post_accumulate_grad_hook(self._launch)

    def _launch(self, p: nn.Parameter) -> None:
        p.grad.div_(dist.get_world_size())
        self.handles[p] = dist.all_reduce(p.grad, async_op=True)

    def ready(self, params: List[nn.Parameter]) -> Iterator[nn.Parameter]:
        for p in params:
            h = self.handles.pop(p, None)
            if h is not None:
                h.wait()
            yield p


class LionGroup:
    def __init__(self, params: List[nn.Parameter], lr: float, table: HandleTable):
        self.params, self.lr, self.table = params, lr, table
        self.m = {p: torch.zeros_like(p) for p in params}

    @torch.no_grad()
    def step(self) -> None:
        for p in self.table.ready(self.params):
            m = self.m[p]
            p.sub_(m.lerp(p.grad, 0.1).sign_(), alpha=self.lr)
            m.lerp_(p.grad, 0.01)
            p.grad = None


class Loop:
    def __init__(self, a: TrainArgs, dev: torch.device):
        self.a, self.dev = a, dev
        torch.manual_seed(0)
        self.net = MixerLM(a).to(dev)
        for p in self.net.parameters():
            dist.broadcast(p.data, 0)
        self.table = HandleTable()
        self.table.attach(list(self.net.parameters()))
        body = list(self.net.mix.parameters())
        ends = [self.net.head.weight, self.net.emb.weight]
        self.groups = [LionGroup(ends, 3e-4, self.table), LionGroup(body, 1e-4, self.table)]

    def iterate(self) -> torch.Tensor:
        x = torch.randint(self.a.vocab, (self.a.batch, self.a.seq + 1), device=self.dev)
        logits = self.net(x[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        for g in self.groups:
            g.step()
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    dev = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(dev)
    loop = Loop(TrainArgs(), dev)
    for it in range(loop.a.steps):
        l = loop.iterate()
        if it % 20 == 0 and dist.get_rank() == 0:
            print(it, l.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
