"""Bucketed gradient averaging overlapped with the backward pass."""
import torch
import torch.distributed as dist


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(
            sum(p.numel() for p in params), dtype=params[0].dtype, device=params[0].device
        )
        self.views = {}
        start = 0
        for p in params:
            self.views[p] = self.flat[start:start + p.numel()].view_as(p)
            start += p.numel()
        self.work = None
        self.reset()

    def reset(self):
        self.pending = set(self.params)
        self.work = None


class OverlappedAverager:
    def __init__(self, module, bucket_bytes=25 << 20, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        params = [p for p in reversed(list(module.parameters())) if p.requires_grad]
        self.device = params[0].device
        self.comm = torch.cuda.Stream(self.device)
        self.buckets = []
        self.bucket_of = {}
        chunk, size = [], 0
        for p in params:
            chunk.append(p)
            size += p.numel() * p.element_size()
            if size >= bucket_bytes:
                self._close(chunk)
                chunk, size = [], 0
        if chunk:
            self._close(chunk)
        self.cursor = 0
        self.enabled = True
        self.handles = [p.register_post_accumulate_grad_hook(self._ready) for p in params]

    def _close(self, chunk):
        bucket = Bucket(chunk)
        bucket.flat.record_stream(self.comm)
        self.buckets.append(bucket)
        for p in chunk:
            self.bucket_of[p] = bucket

    def _ready(self, p):
        if not self.enabled:
            return
        bucket = self.bucket_of[p]
        if p not in bucket.pending:
            raise RuntimeError("second backward without finish(); set enabled=False to accumulate")
        bucket.views[p].copy_(p.grad)
        bucket.pending.discard(p)
        self._launch_ready()

    def _launch_ready(self):
        while self.cursor < len(self.buckets) and not self.buckets[self.cursor].pending:
            bucket = self.buckets[self.cursor]
            self.comm.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self.comm):
                bucket.flat.div_(self.world)
                bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
            self.cursor += 1

    def finish(self):
        for bucket in self.buckets[self.cursor:]:
            for p in bucket.pending:
                if p.grad is None:
                    bucket.views[p].zero_()
                else:
                    bucket.views[p].copy_(p.grad)
            bucket.pending.clear()
        self._launch_ready()
        for bucket in self.buckets:
            bucket.work.wait()
            for p in bucket.params:
                if p.grad is None:
                    p.grad = bucket.views[p].clone()
                else:
                    p.grad.copy_(bucket.views[p])
            bucket.reset()
        self.cursor = 0


def train_step(model, averager, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad(set_to_none=True)
    for i, (x, y) in enumerate(micro_batches):
        averager.enabled = i == len(micro_batches) - 1
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    averager.finish()
    optimizer.step()
