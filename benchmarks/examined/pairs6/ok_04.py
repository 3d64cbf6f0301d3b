"""Data parallel wrapper: gradients are packed into flat buckets and reduced on a second stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device="cuda")
        self.views, offset = {}, 0
        for p in params:
            self.views[p] = self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()
        self.pending = len(params)


class BucketedDataParallel:
    def __init__(self, module, cap=4 << 20):
        self.module = module
        self.comm = torch.cuda.Stream()
        self.buckets, group, size = [], [], 0
        for p in reversed(list(module.parameters())):
            group.append(p)
            size += p.numel()
            if size >= cap:
                self.buckets.append(Bucket(group))
                group, size = [], 0
        if group:
            self.buckets.append(Bucket(group))
        for bucket in self.buckets:
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(lambda p, b=bucket: self._on_grad(b, p))

    def _on_grad(self, bucket, p):
        bucket.views[p].copy_(p.grad)
        bucket.pending -= 1
        if bucket.pending == 0:
            self.comm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.comm):
                dist.all_reduce(bucket.flat)
                bucket.flat.div_(dist.get_world_size())

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.comm)
        for bucket in self.buckets:
            for p in bucket.params:
                p.grad.copy_(bucket.views[p])
            bucket.pending = len(bucket.params)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(12)]).cuda()
    ddp = BucketedDataParallel(net)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(100):
        x = torch.randn(64, 2048, device="cuda")
        net(x).square().mean().backward()
        ddp.finish()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
