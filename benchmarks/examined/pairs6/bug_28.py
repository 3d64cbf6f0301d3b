"""Gradient norm statistics are averaged over the workers on a CPU process group."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class NormTracker:
    """Keeps a running mean of per-layer gradient norms over all workers."""

    def __init__(self, module, decay=0.98):
        self.names = [n for n, _ in module.named_parameters()]
        self.params = [p for _, p in module.named_parameters()]
        self.group = dist.new_group(backend="gloo")
        self.world = dist.get_world_size()
        self.local = torch.zeros(len(self.params), pin_memory=True)
        self.mean = torch.zeros(len(self.params))
        self.decay = decay

    @torch.no_grad()
    def update(self):
        norms = torch.stack(torch._foreach_norm([p.grad for p in self.params]))
        self.local.copy_(norms, non_blocking=True)
        dist.all_reduce(self.local, group=self.group)
        self.mean.lerp_(self.local / self.world, 1 - self.decay)

    def outliers(self, factor=10.0):
        return [n for n, m in zip(self.names, self.mean.tolist()) if m > factor * self.mean.median().item()]


def build(depth=8, dim=1024):
    blocks = []
    for _ in range(depth):
        blocks += [nn.Linear(dim, dim), nn.LayerNorm(dim), nn.GELU()]
    return nn.Sequential(*blocks)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = build().cuda()
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    tracker = NormTracker(model)
    for step in range(1, 2001):
        x = torch.randn(128, 1024, device="cuda")
        loss = (ddp(x) - x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        tracker.update()
        optimizer.step()
        if step % 500 == 0 and dist.get_rank() == 0:
            print(step, tracker.outliers())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
