"""Data-parallel training with a background reducer thread that owns the communication stream."""
import os
import queue
import threading
from typing import List

import torch
import torch.distributed as dist
from torch import nn


class ReduceJob:
    def __init__(self, grads: List[torch.Tensor], ready: torch.cuda.Event):
        self.grads = grads
        self.ready = ready
        self.done = threading.Event()


class Reducer(threading.Thread):
    def __init__(self, device: torch.device, capacity: int):
        super().__init__(daemon=True)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.flat = torch.zeros(capacity, device=device)
        self.jobs: "queue.Queue[ReduceJob]" = queue.Queue()
        torch.cuda.synchronize(device)

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        while True:
            job = self.jobs.get()
            self._reduce(job)
            job.done.set()

    def _reduce(self, job: ReduceJob) -> None:
        self.stream.wait_event(job.ready)
        with torch.cuda.stream(self.stream):
            views, offset = [], 0
            for grad in job.grads:
                view = self.flat[offset : offset + grad.numel()].view_as(grad)
                view.copy_(grad)
                views.append(view)
                offset += grad.numel()
            dist.all_reduce(self.flat[:offset])
            self.flat[:offset].div_(dist.get_world_size())
            torch._foreach_copy_(job.grads, views)

    def synchronize(self, job: ReduceJob) -> None:
        job.done.wait()


class DistributedOptimizer:
    def __init__(self, model: nn.Module, inner: torch.optim.Optimizer, device: torch.device, bucket: int = 1 << 24):
        self.inner = inner
        self.bucket = bucket
        self.params = [p for p in model.parameters() if p.requires_grad]
        total = sum(p.numel() for p in self.params)
        self.reducer = Reducer(device, max(total, bucket))
        self.reducer.start()
        self.open: List[torch.Tensor] = []
        self.jobs: List[ReduceJob] = []
        for param in self.params:
            param.grad = torch.zeros_like(param)
            param.register_post_accumulate_grad_hook(self._collect)

    def _collect(self, param: torch.Tensor) -> None:
        self.open.append(param.grad)
        if sum(g.numel() for g in self.open) >= self.bucket:
            self._submit()

    def _submit(self) -> None:
        if self.open:
            job = ReduceJob(self.open, torch.cuda.current_stream().record_event())
            self.jobs.append(job)
            self.reducer.jobs.put(job)
            self.open = []

    def step(self) -> None:
        self._submit()
        for job in self.jobs:
            self.reducer.synchronize(job)
        self.jobs.clear()
        self.inner.step()
        self.inner.zero_grad(set_to_none=False)


def main() -> None:
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(16)]).to(device)
    optimizer = DistributedOptimizer(model, torch.optim.SGD(model.parameters(), lr=1e-3), device)
    for _ in range(20):
        loss = model(torch.randn(512, 2048, device=device)).square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
