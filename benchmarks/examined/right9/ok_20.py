import os

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        self.views = [c.view_as(p) for c, p in zip(self.flat.split([p.numel() for p in params]), params)]
        self.missing = len(params)


class BucketReducer:
    """Averages gradients bucket by bucket while backward is running."""

    def __init__(self, params, cap=1 << 20):
        self.stream = torch.cuda.Stream(priority=-1)
        self.world = dist.get_world_size()
        self.buckets = []
        self.owner = {}
        group, size = [], 0
        for p in reversed(list(params)):
            group.append(p)
            size += p.numel()
            if size >= cap:
                self._add(group)
                group, size = [], 0
        if group:
            self._add(group)

    def _add(self, params):
        bucket = Bucket(params)
        self.buckets.append(bucket)
        for p in params:
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        bucket = self.owner[p]
        bucket.missing -= 1
        if bucket.missing == 0:
            self._reduce(bucket)

    def _reduce(self, bucket):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for p, view in zip(bucket.params, bucket.views):
                view.copy_(p.grad)
            bucket.flat.div_(self.world)
            dist.all_reduce(bucket.flat)
            for p, view in zip(bucket.params, bucket.views):
                p.grad.copy_(view)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(1024, 1024), nn.ReLU())]).cuda()
    reducer = BucketReducer(model.parameters())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank() + 1)
    for _ in range(50):
        x = torch.randn(64, 1024, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        reducer.finish()
        opt.step()
        opt.zero_grad(set_to_none=True)
    print(dist.get_rank(), loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
