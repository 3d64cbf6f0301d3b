"""Data parallel wrapper: buckets are reduced by a dedicated thread."""
import queue
import threading
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        self.pending = len(params)

    def reset(self):
        self.pending = len(self.params)


class ReductionThread(threading.Thread):
    """NCCL calls are issued from one place so that every rank has the same order."""

    def __init__(self, device: torch.device):
        super().__init__(daemon=True)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.jobs: "queue.Queue" = queue.Queue()

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while True:
                bucket = self.jobs.get()
                if bucket is None:
                    self.jobs.task_done()
                    return
                self._reduce(bucket)
                self.jobs.task_done()

    def _reduce(self, bucket: Bucket):
        grads = [p.grad for p in bucket.params]
        coalesced = _flatten_dense_tensors(grads)
        dist.all_reduce(coalesced)
        for grad, reduced in zip(grads, _unflatten_dense_tensors(coalesced, grads)):
            grad.copy_(reduced)

    def drain(self):
        self.jobs.join()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)


class ParallelModel(nn.Module):
    def __init__(self, module: nn.Module, device: torch.device, bucket_mb: float = 4.0):
        super().__init__()
        self.module = module
        self.world = dist.get_world_size()
        self.reducer = ReductionThread(device)
        self.buckets = self._make_buckets(int(bucket_mb * 2 ** 20))
        self.owner = {p: b for b in self.buckets for p in b.params}
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)
        self.reducer.start()

    def _make_buckets(self, limit: int) -> List[Bucket]:
        buckets, group, size = [], [], 0
        for p in reversed(list(self.module.parameters())):
            group.append(p)
            size += p.numel() * p.element_size()
            if size >= limit:
                buckets.append(Bucket(group))
                group, size = [], 0
        if group:
            buckets.append(Bucket(group))
        return buckets

    def _on_grad(self, param: nn.Parameter):
        param.grad.div_(self.world)
        bucket = self.owner[param]
        bucket.pending -= 1
        if bucket.pending == 0:
            self.reducer.jobs.put(bucket)

    def forward(self, *args):
        return self.module(*args)

    def synchronize(self):
        self.reducer.drain()
        for bucket in self.buckets:
            bucket.reset()


def main(steps: int = 50):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(16)]
    model = ParallelModel(nn.Sequential(*layers).to(device), device)
    optimizer = torch.optim.SGD(model.module.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(64, 2048, device=device)
        loss = model(x).square().mean()
        loss.backward()
        model.synchronize()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    model.reducer.jobs.put(None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
