import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, params):
        self.params = list(params)
        self.offsets = {}
        total = 0
        for p in self.params:
            self.offsets[p] = total
            total += p.numel()
        self.flat = torch.zeros(total, device=self.params[0].device)
        self.pending = len(self.params)
        self.work = None

    def view(self, p):
        start = self.offsets[p]
        return self.flat[start : start + p.numel()].view_as(p)


class BucketedReducer:
    """Averages gradients bucket by bucket as backward produces them."""

    def __init__(self, model: nn.Module, bucket_numel: int, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.buckets = []
        self._bucket_of = {}
        chunk, size = [], 0
        for p in reversed(list(model.parameters())):
            chunk.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self._close(chunk)
                chunk, size = [], 0
        if chunk:
            self._close(chunk)
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _close(self, chunk):
        bucket = Bucket(chunk)
        self.buckets.append(bucket)
        for p in chunk:
            self._bucket_of[p] = bucket

    def _on_grad(self, p):
        bucket = self._bucket_of[p]
        torch.div(p.grad, self.world, out=bucket.view(p))
        bucket.pending -= 1
        if bucket.pending == 0:
            bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self):
        for bucket in self.buckets:
            if bucket.work is None:
                continue
            bucket.work.wait()
            bucket.work = None
            bucket.pending = len(bucket.params)
            for p in bucket.params:
                p.grad.copy_(bucket.view(p))


def train(rank: int, model: nn.Module, loader):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model.cuda()
    reducer = BucketedReducer(model, 1 << 22)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        reducer.finish()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
