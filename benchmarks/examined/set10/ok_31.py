import contextlib

import torch
import torch.distributed as dist


class GradBucket:
    def __init__(self, params, dtype=torch.float32):
        self.params = params
        self.flat = torch.empty(sum(p.numel() for p in params), dtype=dtype, device=params[0].device)
        self.waiting = set(params)
        self.work = None

    def pack(self):
        offset = 0
        for p in self.params:
            self.flat[offset : offset + p.numel()].copy_(p.grad.view(-1))
            offset += p.numel()

    def unpack(self, scale):
        offset = 0
        for p in self.params:
            p.grad.copy_(self.flat[offset : offset + p.numel()].view_as(p.grad)).mul_(scale)
            offset += p.numel()


class AsyncGradSync:
    """Starts the all-reduce of a bucket when its last gradient of the last microbatch is there."""

    def __init__(self, model, bucket_numel=1 << 22, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.enabled = True
        self.buckets, self.owner = [], {}
        current, size = [], 0
        for p in reversed([p for p in model.parameters() if p.requires_grad]):
            current.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self._add(current)
                current, size = [], 0
        if current:
            self._add(current)

    def _add(self, params):
        bucket = GradBucket(params)
        self.buckets.append(bucket)
        for p in params:
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._on_grad)

    @contextlib.contextmanager
    def no_sync(self):
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True

    def _on_grad(self, param):
        if not self.enabled:
            return
        bucket = self.owner[param]
        bucket.waiting.discard(param)
        if not bucket.waiting:
            bucket.pack()
            bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def sync_gradients(self):
        for bucket in self.buckets:
            if bucket.work is None:
                for p in bucket.params:
                    if p.grad is None:
                        p.grad = torch.zeros_like(p)
                bucket.pack()
                bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.unpack(1.0 / self.world)
            bucket.work = None
            bucket.waiting = set(bucket.params)


def forward_backward(model, microbatches, loss_fn, sync):
    losses = []
    for i, (x, y) in enumerate(microbatches):
        last = i == len(microbatches) - 1
        with contextlib.nullcontext() if last else sync.no_sync():
            loss = loss_fn(model(x), y) / len(microbatches)
            loss.backward()
        losses.append(loss.detach())
    sync.sync_gradients()
    return torch.stack(losses).sum()
