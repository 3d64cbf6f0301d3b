"""Gradient buckets reduced asynchronously while backward continues."""
import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        self.views = {}
        offset = 0
        for p in params:
            self.views[p] = self.flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        self.reset()

    def reset(self):
        self.missing = len(self.params)
        self.work = None


class BucketReducer:
    def __init__(self, module, bucket_elems, group=None):
        self.group = group
        self.buckets = []
        current, size = [], 0
        for p in reversed(list(module.parameters())):
            current.append(p)
            size += p.numel()
            if size >= bucket_elems:
                self.buckets.append(Bucket(current))
                current, size = [], 0
        if current:
            self.buckets.append(Bucket(current))
        self.owner = {p: b for b in self.buckets for p in b.params}
        for p in self.owner:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        bucket = self.owner[p]
        bucket.views[p].copy_(p.grad)
        bucket.missing -= 1
        if bucket.missing == 0:
            bucket.work = dist.all_reduce(
                bucket.flat, op=dist.ReduceOp.AVG, group=self.group, async_op=True
            )

    def finish(self):
        for bucket in self.buckets:
            if bucket.work is None:
                raise RuntimeError(f"{bucket.missing} gradients missing in bucket")
            bucket.work.wait()
            for p in bucket.params:
                p.grad.copy_(bucket.views[p])
            bucket.reset()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(8)]).cuda()
    reducer = BucketReducer(model, bucket_elems=2 << 20)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(100):
        g = torch.Generator(device="cuda").manual_seed(step * dist.get_world_size() + rank)
        x = torch.randn(64, 1024, device="cuda", generator=g)
        loss = (model(x) - x).square().mean()
        loss.backward()
        reducer.finish()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if rank == 0 and step % 20 == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
