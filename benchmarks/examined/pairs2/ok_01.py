"""Bucketed data-parallel gradient averaging."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class GradBucket:
    def __init__(self, params, device):
        self.params = list(params)
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device=device)
        self.slices = {}
        offset = 0
        for p in self.params:
            self.slices[p] = self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()
        self.pending = len(self.params)

    def reset(self):
        self.pending = len(self.params)


class BucketReducer:
    def __init__(self, module, bucket_size, device):
        self.world = dist.get_world_size()
        self.comm = torch.cuda.Stream(device)
        self.buckets, self.owner = [], {}
        params = [p for p in module.parameters() if p.requires_grad]
        for i in range(0, len(params), bucket_size):
            bucket = GradBucket(params[i:i + bucket_size], device)
            self.buckets.append(bucket)
            for p in bucket.params:
                self.owner[p] = bucket
                p.register_post_accumulate_grad_hook(self._grad_ready)

    def _grad_ready(self, p):
        bucket = self.owner[p]
        bucket.slices[p].copy_(p.grad)
        bucket.pending -= 1
        if bucket.pending == 0:
            self._reduce(bucket)

    def _reduce(self, bucket):
        self.comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm):
            bucket.flat.div_(self.world)
            dist.all_reduce(bucket.flat)

    def finalize(self):
        torch.cuda.current_stream().wait_stream(self.comm)
        for bucket in self.buckets:
            for p in bucket.params:
                p.grad.copy_(bucket.slices[p])
            bucket.reset()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).to(device)
    reducer = BucketReducer(model, bucket_size=4, device=device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        x = torch.randn(32, 1024, device=device)
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        reducer.finalize()
        opt.step()


if __name__ == "__main__":
    main()
