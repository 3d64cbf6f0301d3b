"""Manual data parallel wrapper with a bf16 compression hook and async metrics."""
import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.numel = sum(p.numel() for p in params)
        self.pending = len(params)

    def flatten(self):
        return torch.cat([p.grad.reshape(-1) for p in self.params])

    def scatter(self, flat):
        offset = 0
        for p in self.params:
            p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()


class CommHandle:
    def __init__(self, bucket, compressed, work):
        self.bucket = bucket
        self.compressed = compressed
        self.work = work

    def finish(self):
        self.work.wait()
        self.bucket.scatter(self.compressed.float())
        self.compressed = None


def bf16_compress_hook(group, bucket):
    compressed = bucket.flatten().div_(dist.get_world_size(group)).to(torch.bfloat16)
    work = dist.all_reduce(compressed, group=group, async_op=True)
    return CommHandle(bucket, compressed, work)


def allreduce_hook(group, bucket):
    flat = bucket.flatten().div_(dist.get_world_size(group))
    work = dist.all_reduce(flat, group=group, async_op=True)
    return CommHandle(bucket, flat, work)


HOOKS = {"bf16": bf16_compress_hook, "allreduce": allreduce_hook}


class DataParallel(nn.Module):
    def __init__(self, module, group, hook="bf16", cap=1 << 22):
        super().__init__()
        self.module = module
        self.group = group
        self.hook = HOOKS[hook]
        self.handles = []
        self.bucket_of = {}
        chunk, size = [], 0
        for p in reversed(list(module.parameters())):
            chunk.append(p)
            size += p.numel()
            if size >= cap:
                self._add(chunk)
                chunk, size = [], 0
        if chunk:
            self._add(chunk)

    def _add(self, params):
        bucket = Bucket(params)
        for p in params:
            self.bucket_of[p] = bucket
            p.register_post_accumulate_grad_hook(self._ready)

    def _ready(self, param):
        bucket = self.bucket_of[param]
        bucket.pending -= 1
        if bucket.pending == 0:
            bucket.pending = len(bucket.params)
            self.handles.append(self.hook(self.group, bucket))

    def forward(self, x):
        return self.module(x)

    @torch.no_grad()
    def finish_gradients(self):
        for handle in self.handles:
            handle.finish()
        self.handles.clear()


class MetricLog:
    """Loss values are copied to a pinned ring and printed some steps later."""

    def __init__(self, depth=4):
        self.host = torch.zeros(depth, pin_memory=True)
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.steps = [None] * depth

    def push(self, step, value):
        lane = step % len(self.events)
        self.pop(lane)
        self.host[lane].copy_(value, non_blocking=True)
        self.events[lane].record()
        self.steps[lane] = step

    def pop(self, lane):
        if self.steps[lane] is not None:
            self.events[lane].synchronize()
            print(self.steps[lane], self.host[lane].item())
            self.steps[lane] = None

    def flush(self):
        for lane in range(len(self.events)):
            self.pop(lane)


def train(width=2048, depth=10, steps=40):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)]).cuda()
    model = DataParallel(net, dist.group.WORLD, hook="bf16")
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    log = MetricLog()
    for step in range(steps):
        x = torch.randn(256, width, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        model.finish_gradients()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log.push(step, loss.detach())
    log.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
