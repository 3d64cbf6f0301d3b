"""Data-parallel training with gradient buckets that are reduced while backward is still running."""
import os
from typing import Dict, List

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        self.views, offset = [], 0
        for param in params:
            self.views.append(self.flat[offset : offset + param.numel()].view_as(param))
            offset += param.numel()
        self.outstanding = len(params)
        self.work = None

    def mark(self) -> bool:
        self.outstanding -= 1
        return self.outstanding == 0

    def launch(self, group: dist.ProcessGroup) -> None:
        torch._foreach_copy_(self.views, [p.grad for p in self.params])
        self.work = dist.all_reduce(self.flat, group=group, async_op=True)

    def collect(self, scale: float) -> None:
        self.work.wait()
        self.flat.mul_(scale)
        torch._foreach_copy_([p.grad for p in self.params], self.views)
        self.outstanding, self.work = len(self.params), None


class GradientAverager:
    def __init__(self, model: nn.Module, group: dist.ProcessGroup, limit: int = 1 << 23):
        self.group = group
        self.scale = 1.0 / dist.get_world_size(group)
        self.buckets: List[Bucket] = []
        self.owner: Dict[nn.Parameter, Bucket] = {}
        batch: List[nn.Parameter] = []
        for param in reversed([p for p in model.parameters() if p.requires_grad]):
            batch.append(param)
            if sum(p.numel() for p in batch) >= limit:
                self._close(batch)
                batch = []
        if batch:
            self._close(batch)

    def _close(self, params: List[nn.Parameter]) -> None:
        bucket = Bucket(params)
        self.buckets.append(bucket)
        for param in params:
            self.owner[param] = bucket
            param.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param: nn.Parameter) -> None:
        bucket = self.owner[param]
        if bucket.mark():
            bucket.launch(self.group)

    def finish(self) -> None:
        for bucket in self.buckets:
            bucket.collect(self.scale)


def main() -> None:
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(12)]).to(device)
    averager = GradientAverager(model, dist.group.WORLD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(20):
        loss = model(torch.randn(512, 2048, device=device)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        averager.finish()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
