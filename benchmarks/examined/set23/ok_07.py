"""Bucket groups that reduce-scatter through an all-to-all with fp32 accumulation."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn


class BucketGroup:
    def __init__(self, params, group):
        self.params = list(params)
        self.group = group
        self.world = dist.get_world_size(group)
        numel = sum(p.numel() for p in self.params)
        padded = (numel + self.world - 1) // self.world * self.world
        self.grad_data = torch.zeros(padded, device="cuda", dtype=torch.bfloat16)
        self.shard = torch.zeros(padded // self.world, device="cuda", dtype=torch.float32)
        self.views, offset = {}, 0
        for p in self.params:
            self.views[p] = self.grad_data[offset:offset + p.numel()].view_as(p)
            offset += p.numel()
        self.is_last_microbatch = True
        self.pending = 0
        self.previous = None
        self.work = None
        self.a2a_out = None
        self.grad_reduce_finished = True

    def register_grad_ready(self, param):
        self.views[param].add_(param.grad)
        param.grad = None
        if not self.is_last_microbatch:
            return
        self.pending += 1
        if self.pending == len(self.params):
            self.pending = 0
            self.start_grad_sync()

    def start_grad_sync(self):
        if self.previous is not None:
            self.previous.finish_grad_sync()
        self.grad_reduce_finished = False
        self.a2a_out = torch.empty_like(self.grad_data)
        self.work = dist.all_to_all_single(
            self.a2a_out, self.grad_data, group=self.group, async_op=True
        )

    def finish_grad_sync(self):
        if self.grad_reduce_finished:
            return
        self.work.wait()
        torch.mean(self.a2a_out.view(self.world, -1).float(), dim=0, out=self.shard)
        self.work = None
        self.a2a_out = None
        self.grad_reduce_finished = True


class DistributedDataParallel(nn.Module):
    def __init__(self, module, group, layers_per_bucket=2):
        super().__init__()
        self.module = module
        self.group = group
        self.bucket_groups = []
        layers = list(module.children())[::-1]
        for i in range(0, len(layers), layers_per_bucket):
            params = [p for layer in layers[i:i + layers_per_bucket] for p in layer.parameters()]
            bucket = BucketGroup(params, group)
            if self.bucket_groups:
                bucket.previous = self.bucket_groups[-1]
            for p in params:
                p.register_post_accumulate_grad_hook(bucket.register_grad_ready)
            self.bucket_groups.append(bucket)

    def forward(self, x):
        return self.module(x)

    @contextlib.contextmanager
    def no_sync(self):
        for bucket in self.bucket_groups:
            bucket.is_last_microbatch = False
        try:
            yield
        finally:
            for bucket in self.bucket_groups:
                bucket.is_last_microbatch = True

    @torch.no_grad()
    def step(self, lr):
        for bucket in self.bucket_groups:
            bucket.finish_grad_sync()
            full = torch.empty(bucket.grad_data.numel(), device="cuda")
            dist.all_gather_into_tensor(full, bucket.shard, group=self.group)
            offset = 0
            for p in bucket.params:
                p.sub_(full[offset:offset + p.numel()].view_as(p).to(p.dtype), alpha=lr)
                offset += p.numel()
            bucket.grad_data.zero_()


def train(steps=20, micro_batches=4, width=2048, depth=8):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    module = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)]).cuda().bfloat16()
    model = DistributedDataParallel(module, dist.group.WORLD)
    for _ in range(steps):
        for micro in range(micro_batches):
            x = torch.randn(64, width, device="cuda", dtype=torch.bfloat16)
            last = micro == micro_batches - 1
            with contextlib.nullcontext() if last else model.no_sync():
                (model(x) - x).float().square().mean().div(micro_batches).backward()
        model.step(lr=1e-3)
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
