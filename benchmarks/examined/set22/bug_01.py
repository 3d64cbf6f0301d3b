"""Bucketed data-parallel gradient reduction with a hook stream and a reduce stream."""
import torch
import torch.distributed as dist
from torch import nn


class GradBucket:
    def __init__(self, params, dtype=torch.float32):
        self.params = list(params)
        self.numel = sum(p.numel() for p in self.params)
        self.grad_data = torch.zeros(self.numel, dtype=dtype, device="cuda")
        self.ready = set()
        offset = 0
        for p in self.params:
            p.main_grad = self.grad_data[offset:offset + p.numel()].view(p.shape)
            offset += p.numel()

    def reset(self):
        self.ready.clear()
        self.grad_data.zero_()


class OverlappedDDP(nn.Module):
    def __init__(self, module, group, bucket_size=4_000_000):
        super().__init__()
        self.module = module
        self.group = group
        self.scale = 1.0 / dist.get_world_size(group)
        self.hook_stream = torch.cuda.Stream()
        self.comm_stream = torch.cuda.Stream()
        self.buckets = []
        self.bucket_of = {}
        self._build(bucket_size)

    def _build(self, bucket_size):
        chunk, size = [], 0
        for p in reversed(list(self.module.parameters())):
            chunk.append(p)
            size += p.numel()
            if size >= bucket_size:
                self._add_bucket(chunk)
                chunk, size = [], 0
        if chunk:
            self._add_bucket(chunk)
        for p in self.module.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _add_bucket(self, params):
        bucket = GradBucket(params)
        self.buckets.append(bucket)
        for p in params:
            self.bucket_of[p] = bucket

    def _on_grad(self, param):
        bucket = self.bucket_of[param]
        grad = param.grad
        param.grad = None
        self.hook_stream.wait_stream(torch.cuda.current_stream())
        grad.record_stream(self.hook_stream)
        with torch.cuda.stream(self.hook_stream):
            param.main_grad.add_(grad, alpha=self.scale)
        bucket.ready.add(param)
        if len(bucket.ready) == len(bucket.params):
            self._reduce(bucket)

    def _reduce(self, bucket):
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(bucket.grad_data, group=self.group)

    def finish_grad_sync(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.comm_stream)
        current.wait_stream(self.hook_stream)

    def zero_grad_buffers(self):
        for bucket in self.buckets:
            bucket.reset()

    def forward(self, *args):
        return self.module(*args)


def train(rank, loader, steps):
    torch.cuda.set_device(rank)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    ddp = OverlappedDDP(model, dist.group.WORLD)
    for _, batch in zip(range(steps), loader):
        ddp.zero_grad_buffers()
        loss = ddp(batch.cuda()).square().mean()
        loss.backward()
        ddp.finish_grad_sync()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.main_grad, alpha=-1e-3)
