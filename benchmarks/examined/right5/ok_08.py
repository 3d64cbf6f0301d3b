import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params, device):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device=device)
        self.ready = 0
        self.work = None

    def views(self):
        offset = 0
        for p in self.params:
            yield p, self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


class BucketedDDP(nn.Module):
    """Overlap gradient all-reduce with the backward pass."""

    def __init__(self, module: nn.Module, bucket_numel: int = 1 << 20):
        super().__init__()
        self.module = module
        self.world = dist.get_world_size()
        self.buckets, self._where = [], {}
        device = next(module.parameters()).device
        current, size = [], 0
        for p in reversed(list(module.parameters())):
            current.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self._close(current, device)
                current, size = [], 0
        if current:
            self._close(current, device)

    def _close(self, params, device):
        bucket = Bucket(params, device)
        self.buckets.append(bucket)
        for p in params:
            self._where[p] = bucket
            p.register_post_accumulate_grad_hook(self._grad_ready)

    def _grad_ready(self, p):
        bucket = self._where[p]
        bucket.ready += 1
        if bucket.ready < len(bucket.params):
            return
        for q, view in bucket.views():
            view.copy_(q.grad)
        bucket.flat.div_(self.world)
        bucket.work = dist.all_reduce(bucket.flat, async_op=True)

    def forward(self, *args):
        return self.module(*args)

    def finish(self):
        for bucket in self.buckets:
            bucket.work.wait()
            for p, view in bucket.views():
                p.grad.copy_(view)
            bucket.ready, bucket.work = 0, None


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = BucketedDDP(nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
        loss.backward()
        model.finish()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
