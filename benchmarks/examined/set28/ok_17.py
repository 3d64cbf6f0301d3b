from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class Bucket:
    params: list
    sizes: list
    compressed: torch.Tensor
    pending: int
    work: object = None


class CompressedDataParallel(nn.Module):
    """Averages fp32 gradients through a bf16 all-reduce that overlaps with backward."""

    def __init__(self, module, group=None, bucket_bytes=25 << 20):
        super().__init__()
        self.module = module
        self.group = group
        self.world = dist.get_world_size(group)
        self.buckets, self.bucket_of = [], {}
        self._build(bucket_bytes)
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _build(self, bucket_bytes):
        current, size = [], 0
        params = [p for p in self.module.parameters() if p.requires_grad][::-1]
        for i, p in enumerate(params):
            current.append(p)
            size += p.numel() * 2
            if size >= bucket_bytes or i + 1 == len(params):
                sizes = [q.numel() for q in current]
                flat = torch.empty(sum(sizes), dtype=torch.bfloat16, device=p.device)
                bucket = Bucket(current, sizes, flat, len(current))
                self.buckets.append(bucket)
                for q in current:
                    self.bucket_of[q] = bucket
                current, size = [], 0

    def _on_grad(self, param):
        bucket = self.bucket_of[param]
        bucket.pending -= 1
        if bucket.pending == 0:
            self._launch(bucket)

    def _launch(self, bucket):
        views = bucket.compressed.split(bucket.sizes)
        torch._foreach_copy_(list(views), [p.grad.reshape(-1) for p in bucket.params])
        bucket.compressed.div_(self.world)
        bucket.work = dist.all_reduce(bucket.compressed, group=self.group, async_op=True)

    def finish(self):
        for bucket in self.buckets:
            if bucket.work is None:
                raise RuntimeError("a parameter of the bucket got no gradient")
            bucket.work.wait()
            views = bucket.compressed.split(bucket.sizes)
            torch._foreach_copy_(
                [p.grad for p in bucket.params], [v.view_as(p) for v, p in zip(views, bucket.params)]
            )
            bucket.work = None
            bucket.pending = len(bucket.params)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


def train(model, loader, steps, lr=0.1):
    ddp = CompressedDataParallel(model.cuda())
    optimizer = torch.optim.Adagrad(ddp.parameters(), lr=lr)
    criterion = nn.BCEWithLogitsLoss()
    running = torch.zeros((), device="cuda")
    for step, (dense, sparse, label) in zip(range(steps), loader):
        logits = ddp(dense.cuda(non_blocking=True), sparse.cuda(non_blocking=True))
        loss = criterion(logits.squeeze(-1), label.cuda(non_blocking=True).float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        ddp.finish()
        optimizer.step()
        running.lerp_(loss.detach(), 0.01)
        if step % 100 == 0 and dist.get_rank() == 0:
            print(step, running.item())
