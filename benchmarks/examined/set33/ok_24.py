from typing import List

import torch
import torch.distributed as dist


class BucketUpdate:
    def __init__(self, params: List[torch.nn.Parameter]):
        self.params = params
        total = sum(p.numel() for p in params)
        self.flat = torch.zeros(total, device=params[0].device)
        self.momentum = torch.zeros_like(self.flat)
        self.work = None

    def pack(self) -> None:
        offset = 0
        for p in self.params:
            self.flat[offset : offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()

    def apply(self, lr: float, beta: float, world: int) -> None:
        self.momentum.mul_(beta).add_(self.flat, alpha=1.0 / world)
        offset = 0
        for p in self.params:
            step = self.momentum[offset : offset + p.numel()].view_as(p)
            p.data.add_(step, alpha=-lr)
            offset += p.numel()


class OverlappedSGD:
    """Reduces bucket k + 1 while bucket k is applied on a second stream."""

    def __init__(self, model: torch.nn.Module, lr=0.1, beta=0.9, bucket_params=8):
        params = [p for p in model.parameters() if p.requires_grad]
        self.buckets = [
            BucketUpdate(params[i : i + bucket_params])
            for i in range(0, len(params), bucket_params)
        ]
        self.lr, self.beta = lr, beta
        self.world = dist.get_world_size()
        self.opt_stream = torch.cuda.Stream(params[0].device)
        self.opt_stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def step(self) -> None:
        for bucket in self.buckets:
            bucket.pack()
            bucket.work = dist.all_reduce(bucket.flat, async_op=True)
        with torch.cuda.stream(self.opt_stream):
            for bucket in self.buckets:
                bucket.work.wait()
                bucket.apply(self.lr, self.beta, self.world)
        self._join()

    def _join(self) -> None:
        torch.cuda.current_stream().wait_stream(self.opt_stream)
        for bucket in self.buckets:
            bucket.work = None
            for p in bucket.params:
                p.grad = None


def train(model, batches, criterion):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = model.cuda()
    optimizer = OverlappedSGD(model)
    for x, y in batches:
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()
