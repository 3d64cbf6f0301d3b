"""Bucketed gradient averaging with future callbacks that scatter the result."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class GradBucket:
    def __init__(self, params):
        self.params = params
        self.flat = None

    def pack(self):
        self.flat = _flatten_dense_tensors([p.grad for p in self.params])
        return self.flat

    def unpack(self, flat, world):
        flat.div_(world)
        for p, g in zip(self.params, _unflatten_dense_tensors(flat, [p.grad for p in self.params])):
            p.grad.copy_(g)


class ModelParallelReducer:
    def __init__(self, module, bucket_numel=4_000_000):
        self.world = dist.get_world_size()
        self.buckets, current, size = [], [], 0
        for p in reversed(list(module.parameters())):
            current.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(GradBucket(current))
                current, size = [], 0
        if current:
            self.buckets.append(GradBucket(current))
        self.works = []

    def launch(self):
        for bucket in self.buckets:
            work = dist.all_reduce(bucket.pack(), async_op=True)
            work.get_future().then(lambda fut, b=bucket: b.unpack(fut.value()[0], self.world))
            self.works.append(work)

    def wait(self):
        for work in self.works:
            work.wait()
        self.works.clear()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    reducer = ModelParallelReducer(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(50):
        x = torch.randn(64, 2048, device="cuda")
        opt.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        reducer.launch()
        reducer.wait()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
