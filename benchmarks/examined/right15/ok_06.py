"""Bucketed gradient averaging launched from post-accumulate hooks."""
import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = None
        self.work = None
        self.seen = set()


class BucketedAverager:
    def __init__(self, module, bucket_numel=1 << 20, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.buckets = []
        self._owner = {}
        self._handles = []
        batch, count = [], 0
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            batch.append(p)
            count += p.numel()
            if count >= bucket_numel:
                self.buckets.append(Bucket(batch))
                batch, count = [], 0
        if batch:
            self.buckets.append(Bucket(batch))
        for bucket in self.buckets:
            for p in bucket.params:
                self._owner[p] = bucket
                self._handles.append(p.register_post_accumulate_grad_hook(self._on_grad))

    def _on_grad(self, p):
        bucket = self._owner[p]
        if bucket.work is not None:
            raise RuntimeError("finish() must follow every backward")
        bucket.seen.add(p)
        if len(bucket.seen) == len(bucket.params):
            self._launch(bucket)

    def _launch(self, bucket):
        pieces = [p.grad.reshape(-1) if p.grad is not None
                  else p.new_zeros(p.numel()) for p in bucket.params]
        bucket.flat = torch.cat(pieces).div_(self.world)
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self):
        for bucket in self.buckets:
            if bucket.work is None:
                self._launch(bucket)
        for bucket in self.buckets:
            bucket.work.wait()
            offset = 0
            for p in bucket.params:
                piece = bucket.flat[offset:offset + p.numel()].view_as(p)
                offset += p.numel()
                if p.grad is None:
                    p.grad = piece.clone()
                else:
                    p.grad.copy_(piece)
            bucket.flat = bucket.work = None
            bucket.seen.clear()

    def remove(self):
        for handle in self._handles:
            handle.remove()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    averager = BucketedAverager(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(10):
        loss = model(torch.randn(32, 512, device="cuda")).pow(2).mean()
        loss.backward()
        averager.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    averager.remove()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
