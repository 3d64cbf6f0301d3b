"""ZeRO-offload style step: fp32 master copies and Adam states live on the host."""
from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn


@dataclass
class Partition:
    params: List[nn.Parameter]
    master: torch.Tensor
    grad: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor

    @classmethod
    def build(cls, params: List[nn.Parameter]) -> "Partition":
        flat = torch.cat([p.detach().float().reshape(-1) for p in params]).cpu()
        return cls(
            params,
            flat,
            torch.empty_like(flat).pin_memory(),
            torch.zeros_like(flat),
            torch.zeros_like(flat),
        )


class OffloadOptimizer:
    def __init__(self, groups: List[List[nn.Parameter]], lr: float, betas=(0.9, 0.95), eps=1e-8):
        self.partitions = [Partition.build(g) for g in groups]
        largest = max(p.master.numel() for p in self.partitions)
        self.bit16_staging = torch.empty(largest, dtype=torch.bfloat16, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0

    def _fetch_grads(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for part in self.partitions:
                off = 0
                for p in part.params:
                    n = p.numel()
                    part.grad[off:off + n].copy_(p.grad.detach().float().reshape(-1), non_blocking=True)
                    p.grad.record_stream(self.stream)
                    off += n
        self.stream.synchronize()

    def _cpu_adam(self, part: Partition):
        b1, b2 = self.betas
        part.exp_avg.mul_(b1).add_(part.grad, alpha=1 - b1)
        part.exp_avg_sq.mul_(b2).addcmul_(part.grad, part.grad, value=1 - b2)
        denom = (part.exp_avg_sq / (1 - b2 ** self.t)).sqrt_().add_(self.eps)
        part.master.addcdiv_(part.exp_avg, denom, value=-self.lr / (1 - b1 ** self.t))

    def _write_back(self, part: Partition):
        staged = self.bit16_staging[: part.master.numel()]
        staged.copy_(part.master)
        off = 0
        for p in part.params:
            n = p.numel()
            p.data.view(-1).copy_(staged[off:off + n], non_blocking=True)
            off += n

    @torch.no_grad()
    def step(self):
        self.t += 1
        self._fetch_grads()
        for part in self.partitions:
            self._cpu_adam(part)
            with torch.cuda.stream(self.stream):
                self._write_back(part)
        self.stream.synchronize()

    def zero_grad(self):
        for part in self.partitions:
            for p in part.params:
                p.grad = None


def main():
    torch.manual_seed(0)
    width = 1024
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(8)]).to("cuda", torch.bfloat16)
    groups = [list(layer.parameters()) for layer in model]
    opt = OffloadOptimizer(groups, lr=1e-3)
    for step in range(20):
        x = torch.randn(64, width, device="cuda", dtype=torch.bfloat16)
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
