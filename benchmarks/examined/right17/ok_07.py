"""Bucketed gradient averaging driven by post-accumulate hooks."""
from typing import Dict, List

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        self.offsets: Dict[nn.Parameter, int] = {}
        total = 0
        for p in params:
            self.offsets[p] = total
            total += p.numel()
        self.flat = torch.zeros(total, device=params[0].device)
        self.reduced = torch.cuda.Event()
        self.seen = set()
        self.launched = False

    def view(self, p: nn.Parameter) -> torch.Tensor:
        start = self.offsets[p]
        return self.flat[start : start + p.numel()].view_as(p)


class BucketedReducer:
    def __init__(self, module: nn.Module, bucket_numel: int = 1 << 22):
        self.world = dist.get_world_size()
        params = [p for p in module.parameters() if p.requires_grad]
        self.device = params[0].device
        self.comm = torch.cuda.Stream(device=self.device, priority=-1)
        self.buckets: List[Bucket] = []
        group: List[nn.Parameter] = []
        size = 0
        for p in reversed(params):
            group.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(Bucket(group))
                group, size = [], 0
        if group:
            self.buckets.append(Bucket(group))
        for bucket in self.buckets:
            bucket.flat.record_stream(self.comm)
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(self._make_hook(bucket))

    def _make_hook(self, bucket: Bucket):
        def hook(p: torch.Tensor) -> None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(bucket.reduced)
            bucket.view(p).copy_(p.grad)
            self.comm.wait_stream(current)
            bucket.seen.add(p)
            if len(bucket.seen) == len(bucket.params):
                self._launch(bucket)

        return hook

    def _launch(self, bucket: Bucket) -> None:
        with torch.cuda.stream(self.comm):
            dist.all_reduce(bucket.flat)
            bucket.flat.div_(self.world)
            bucket.reduced.record(self.comm)
        bucket.launched = True
        bucket.seen.clear()

    def finish(self) -> None:
        """Writes averaged gradients back into ``.grad``."""
        current = torch.cuda.current_stream(self.device)
        for bucket in self.buckets:
            if bucket.seen:
                current.wait_event(bucket.reduced)
                for p in bucket.params:
                    if p not in bucket.seen:
                        bucket.view(p).zero_()
                self.comm.wait_stream(current)
                self._launch(bucket)
        for bucket in self.buckets:
            if not bucket.launched:
                continue
            bucket.launched = False
            current.wait_event(bucket.reduced)
            for p in bucket.params:
                if p.grad is not None:
                    p.grad.copy_(bucket.view(p))


def train(module: nn.Module, loader, optimizer, loss_fn) -> None:
    reducer = BucketedReducer(module)
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        loss_fn(module(x.to(reducer.device)), y.to(reducer.device)).backward()
        reducer.finish()
        optimizer.step()
