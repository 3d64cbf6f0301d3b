"""Activation offloading through saved-tensor hooks, with separate copy streams."""
import argparse
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Dict, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


@dataclass
class OffloadPolicy:
    min_bytes: int = 1 << 20
    enabled: bool = True
    skip_params: bool = True
    pin: bool = True


class OffloadStats:
    def __init__(self):
        self.bytes = 0
        self.tensors = 0

    def add(self, t: torch.Tensor) -> None:
        self.bytes += t.numel() * t.element_size()
        self.tensors += 1


class ActivationOffloader(saved_tensors_hooks):
    def __init__(self, module: nn.Module, policy: OffloadPolicy):
        self.policy = policy
        self.out_stream = torch.cuda.Stream()
        self.in_stream = torch.cuda.Stream()
        self.params = {p.data_ptr() for p in module.parameters()}
        self.tracker: Dict[int, Tuple[torch.Tensor, torch.cuda.Event, torch.device]] = {}
        self.stats = OffloadStats()
        self.serial = 0
        super().__init__(self._pack, self._unpack)

    def _eligible(self, t: torch.Tensor) -> bool:
        if not t.is_cuda or t.numel() * t.element_size() < self.policy.min_bytes:
            return False
        if self.policy.skip_params and t.data_ptr() in self.params:
            return False
        return t.is_contiguous()

    def _pack(self, t: torch.Tensor) -> Any:
        if not self._eligible(t):
            return t
        self.serial += 1
        tid = self.serial
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=self.policy.pin)
        with torch.cuda.stream(self.out_stream):
            host.copy_(t.detach(), non_blocking=True)
            left = torch.cuda.Event()
            left.record(self.out_stream)
        t.record_stream(self.out_stream)
        self.tracker[tid] = (host, left, t.device)
        self.stats.add(t)
        return tid

    def _unpack(self, ref: Any) -> torch.Tensor:
        if torch.is_tensor(ref):
            return ref
        host, left, device = self.tracker.pop(ref)
        compute = torch.cuda.current_stream(device)
        self.in_stream.wait_event(left)
        with torch.cuda.stream(self.in_stream):
            back = host.to(device, non_blocking=True)
        compute.wait_stream(self.in_stream)
        back.record_stream(compute)
        return back


class FeedForward(nn.Module):
    def __init__(self, dim: int, mult: int = 4):
        super().__init__()
        self.gate = nn.Linear(dim, mult * dim, bias=False)
        self.up = nn.Linear(dim, mult * dim, bias=False)
        self.down = nn.Linear(mult * dim, dim, bias=False)

    def forward(self, x):
        h = F.silu(self.gate(x)) * self.up(x)
        return self.down(h)


class Layer(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.ff = FeedForward(dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class Stack(nn.Module):
    def __init__(self, dim: int, depth: int, heads: int):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, dim)

    def forward(self, x):
        for l in self.layers:
            x = l(x)
        return self.head(x)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch.device("cuda")
        self.model = Stack(args.dim, args.depth, args.heads).to(self.device, torch.bfloat16)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.policy = OffloadPolicy(enabled=not args.no_offload)

    def ctx(self):
        return ActivationOffloader(self.model, self.policy) if self.policy.enabled else nullcontext()

    def step(self) -> float:
        x = torch.randn(self.args.batch, self.args.seq, self.args.dim, device=self.device, dtype=torch.bfloat16)
        with self.ctx():
            loss = (self.model(x) - x).float().pow(2).mean()
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=1024)
    ap.add_argument("--depth", type=int, default=8)
    ap.add_argument("--heads", type=int, default=16)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--seq", type=int, default=1024)
    ap.add_argument("--steps", type=int, default=10)
    ap.add_argument("--no-offload", action="store_true")
    t = Trainer(ap.parse_args())
    for i in range(t.args.steps):
        print(i, t.step())


if __name__ == "__main__":
    main()
