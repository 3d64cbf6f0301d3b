"""Data-parallel training with fp32 master weights and Adam moments on the host."""
import argparse
import math
from dataclasses import dataclass
from typing import Dict, Iterable, List

import torch
import torch.nn as nn


@dataclass
class AdamHyper:
    lr: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    max_norm: float = 1.0


class HostParam:
    """Host mirror of a device parameter."""

    def __init__(self, p: nn.Parameter):
        self.device_param = p
        self.master = p.detach().float().cpu()
        self.grad = torch.zeros(p.shape, dtype=p.dtype, pin_memory=True)
        self.exp_avg = torch.zeros_like(self.master)
        self.exp_avg_sq = torch.zeros_like(self.master)
        self.seen = False

    def receive(self, g: torch.Tensor) -> None:
        self.grad.copy_(g, non_blocking=True)
        self.seen = True


class GradOffloader:
    def __init__(self, params: Iterable[nn.Parameter]):
        self.slots: Dict[nn.Parameter, HostParam] = {}
        for p in params:
            if not p.requires_grad:
                continue
            self.slots[p] = HostParam(p)
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p: nn.Parameter) -> None:
        self.slots[p].receive(p.grad)
        p.grad.record_stream(torch.cuda.current_stream())
        p.grad = None

    def ready(self) -> List[HostParam]:
        return [s for s in self.slots.values() if s.seen]


class HostAdam:
    def __init__(self, offloader: GradOffloader, hyper: AdamHyper):
        self.offloader = offloader
        self.h = hyper
        self.t = 0

    def _global_norm(self, slots: List[HostParam]) -> float:
        sq = 0.0
        for s in slots:
            sq += s.grad.float().pow(2).sum().item()
        return math.sqrt(sq)

    def _update(self, s: HostParam, scale: float) -> None:
        g = s.grad.float().mul_(scale)
        s.exp_avg.lerp_(g, 1 - self.h.beta1)
        s.exp_avg_sq.mul_(self.h.beta2).addcmul_(g, g, value=1 - self.h.beta2)
        c1 = 1 - self.h.beta1 ** self.t
        c2 = 1 - self.h.beta2 ** self.t
        denom = (s.exp_avg_sq / c2).sqrt_().add_(self.h.eps)
        s.master.addcdiv_(s.exp_avg / c1, denom, value=-self.h.lr)

    @torch.no_grad()
    def step(self) -> float:
        self.t += 1
        slots = self.offloader.ready()
        norm = self._global_norm(slots)
        scale = min(1.0, self.h.max_norm / (norm + 1e-6))
        for s in slots:
            self._update(s, scale)
            s.device_param.copy_(s.master)
            s.seen = False
        return norm


class TinyLM(nn.Module):
    def __init__(self, vocab: int, width: int, layers: int):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = x + b(x)
        return self.head(x)


def synthetic(vocab: int, batch: int, seq: int, device):
    while True:
        ids = torch.randint(vocab, (batch, seq + 1), device=device)
        yield ids[:, :-1], ids[:, 1:]


def train(args):
    dev = torch.device("cuda", args.gpu)
    torch.cuda.set_device(dev)
    model = TinyLM(args.vocab, args.width, args.layers).to(dev, torch.bfloat16)
    opt = HostAdam(GradOffloader(model.parameters()), AdamHyper(lr=args.lr))
    data = synthetic(args.vocab, args.batch, args.seq, dev)
    lossf = nn.CrossEntropyLoss()
    for it in range(args.iters):
        x, y = next(data)
        logits = model(x)
        loss = lossf(logits.flatten(0, 1).float(), y.flatten())
        loss.backward()
        norm = opt.step()
        if it % args.log_every == 0:
            print(f"iter {it} loss {loss.item():.4f} norm {norm:.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gpu", type=int, default=0)
    ap.add_argument("--vocab", type=int, default=32000)
    ap.add_argument("--width", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=8)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--seq", type=int, default=512)
    ap.add_argument("--iters", type=int, default=100)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--log-every", type=int, default=10)
    train(ap.parse_args())


if __name__ == "__main__":
    main()
