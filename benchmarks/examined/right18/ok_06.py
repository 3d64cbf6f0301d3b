"""Bucketed gradient averaging over NCCL."""
import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class Bucket:
    def __init__(self, params):
        self.params = params
        self.missing = len(params)
        self.flat = None
        self.work = None


class GradientAverager:
    def __init__(self, model, cap_bytes=25 << 20, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.enabled = True
        self.buckets = []
        self.owner = {}
        current, size = [], 0
        for p in reversed([p for p in model.parameters() if p.requires_grad]):
            current.append(p)
            size += p.numel() * p.element_size()
            if size >= cap_bytes:
                self._close(current)
                current, size = [], 0
        if current:
            self._close(current)
        self.ready = []
        self.next_bucket = 0

    def _close(self, params):
        bucket = Bucket(params)
        self.buckets.append(bucket)
        for p in params:
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        if not self.enabled:
            return
        self.owner[p].missing -= 1
        while (
            self.next_bucket < len(self.buckets)
            and self.buckets[self.next_bucket].missing <= 0
        ):
            self._launch(self.buckets[self.next_bucket])
            self.next_bucket += 1

    def _launch(self, bucket):
        grads = [
            p.grad if p.grad is not None else torch.zeros_like(p) for p in bucket.params
        ]
        bucket.flat = _flatten_dense_tensors(grads)
        bucket.flat.div_(self.world)
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def finish(self):
        while self.next_bucket < len(self.buckets):
            self._launch(self.buckets[self.next_bucket])
            self.next_bucket += 1
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.flat.record_stream(torch.cuda.current_stream(bucket.flat.device))
            shapes = [p.data for p in bucket.params]
            for p, g in zip(bucket.params, _unflatten_dense_tensors(bucket.flat, shapes)):
                if p.grad is None:
                    p.grad = g.clone()
                else:
                    p.grad.copy_(g)
            bucket.flat = None
            bucket.work = None
            bucket.missing = len(bucket.params)
        self.next_bucket = 0


def train_step(model, averager, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad(set_to_none=True)
    last = len(micro_batches) - 1
    for i, (x, y) in enumerate(micro_batches):
        averager.enabled = i == last
        loss_fn(model(x), y).div(last + 1).backward()
    averager.finish()
    optimizer.step()
