"""Small GPT speed-run: gradients are averaged while backward still runs, two optimizers."""
import os
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Hyper:
    vocab: int = 50304
    dim: int = 768
    layers: int = 12
    heads: int = 6
    seq: int = 1024
    batch: int = 4
    steps: int = 200
    warmdown: int = 60


def orthogonalize(g: torch.Tensor, iters: int = 5) -> torch.Tensor:
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm() + 1e-7)
    flip = x.size(0) > x.size(1)
    if flip:
        x = x.T
    for _ in range(iters):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if flip else x


class Attention(nn.Module):
    def __init__(self, h: Hyper):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(h.dim, 3 * h.dim, bias=False)
        self.proj = nn.Linear(h.dim, h.dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.h.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, h: Hyper):
        super().__init__()
        self.attn = Attention(h)
        self.up = nn.Linear(h.dim, 4 * h.dim, bias=False)
        self.down = nn.Linear(4 * h.dim, h.dim, bias=False)

    def forward(self, x):
        x = x + self.attn(F.rms_norm(x, (x.size(-1),)))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (x.size(-1),)))).square())


class GPT(nn.Module):
    def __init__(self, h: Hyper):
        super().__init__()
        self.wte = nn.Embedding(h.vocab, h.dim)
        self.blocks = nn.ModuleList(Block(h) for _ in range(h.layers))
        self.lm_head = nn.Linear(h.dim, h.vocab, bias=False)

    def forward(self, idx, target):
        x = F.rms_norm(self.wte(idx), (self.wte.embedding_dim,))
        for b in self.blocks:
            x = b(x)
        logits = self.lm_head(F.rms_norm(x, (x.size(-1),))).float()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), target.view(-1))


class GradSync:
    def __init__(self, params: List[nn.Parameter]):
        self.work: Dict[nn.Parameter, dist.Work] = {}
        for p in params:
            p.register_post_accumulate_grad_hook(self._fire)

    def _fire(self, p: nn.Parameter) -> None:
        self.work[p] = dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True)

    def wait(self, params: List[nn.Parameter]) -> None:
        for p in params:
            w = self.work.pop(p, None)
            if w is not None:
                w.wait()

    def flush(self) -> None:
        self.wait(list(self.work))


class Muon:
    def __init__(self, params: List[nn.Parameter], lr: float, momentum: float, sync: GradSync):
        self.params, self.lr, self.momentum, self.sync = params, lr, momentum, sync
        self.buf = {p: torch.zeros_like(p) for p in params}

    @torch.no_grad()
    def step(self) -> None:
        for p in self.params:
            self.sync.wait([p])
            b = self.buf[p]
            b.lerp_(p.grad, 1 - self.momentum)
            p.add_(orthogonalize(p.grad.lerp(b, self.momentum)).to(p.dtype), alpha=-self.lr)


class Runner:
    def __init__(self, h: Hyper, device: torch.device):
        self.h, self.device = h, device
        torch.manual_seed(0)
        self.net = GPT(h).to(device)
        for p in self.net.parameters():
            dist.broadcast(p.data, 0)
        matrices = [p for p in self.net.blocks.parameters() if p.ndim == 2]
        outer = [self.net.lm_head.weight, self.net.wte.weight]
        self.sync = GradSync(matrices + outer)
        self.adam = torch.optim.Adam(outer, lr=3e-3, betas=(0.9, 0.95), fused=True)
        self.muon = Muon(matrices, lr=0.02, momentum=0.95, sync=self.sync)

    def lr_scale(self, it: int) -> float:
        left = self.h.steps - it
        return 1.0 if left > self.h.warmdown else left / self.h.warmdown

    def batch(self) -> Tuple[torch.Tensor, torch.Tensor]:
        x = torch.randint(self.h.vocab, (self.h.batch, self.h.seq + 1), device=self.device)
        return x[:, :-1], x[:, 1:]

    def iteration(self, it: int) -> torch.Tensor:
        for g in self.adam.param_groups:
            g["lr"] = 3e-3 * self.lr_scale(it)
        self.muon.lr = 0.02 * self.lr_scale(it)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.net(*self.batch())
        loss.backward()
        self.adam.step()
        self.muon.step()
        self.sync.flush()
        self.net.zero_grad(set_to_none=True)
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    run = Runner(Hyper(), device)
    for it in range(run.h.steps):
        loss = run.iteration(it)
        if it % 25 == 0 and dist.get_rank() == 0:
            print(it, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
