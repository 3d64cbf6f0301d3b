"""Gradient reduction over two alternating buckets, overlapped with backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, numel, device):
        self.buffer = torch.zeros(numel, device=device)
        self.reduced = torch.cuda.Event()
        self.entries = []
        self.filled = 0

    def fits(self, n):
        return self.filled + n <= self.buffer.numel()


class AlternatingReducer:
    """finish() follows every backward()."""

    def __init__(self, params, numel, device):
        self.buckets = [Bucket(numel, device), Bucket(numel, device)]
        self.active = 0
        self.comm = torch.cuda.Stream(device)
        self.world = dist.get_world_size()
        torch.cuda.synchronize(device)
        for p in params:
            if p.requires_grad:
                if p.numel() > numel:
                    raise ValueError("bucket is smaller than a parameter")
                p.register_post_accumulate_grad_hook(self._collect)

    def _collect(self, param):
        n = param.numel()
        if not self.buckets[self.active].fits(n):
            self._launch()
        bucket = self.buckets[self.active]
        if not bucket.entries:
            torch.cuda.current_stream().wait_event(bucket.reduced)
        bucket.buffer[bucket.filled:bucket.filled + n].copy_(param.grad.reshape(-1))
        bucket.entries.append((param, bucket.filled, n))
        bucket.filled += n

    def _launch(self):
        bucket = self.buckets[self.active]
        if bucket.entries:
            self.comm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.comm):
                flat = bucket.buffer[: bucket.filled]
                flat.div_(self.world)
                dist.all_reduce(flat)
                for param, start, n in bucket.entries:
                    param.grad.copy_(flat[start:start + n].view_as(param.grad))
                bucket.reduced.record(self.comm)
            bucket.entries, bucket.filled = [], 0
        self.active ^= 1

    def finish(self):
        self._launch()
        torch.cuda.current_stream().wait_stream(self.comm)


def train(steps=100):
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(16)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    reducer = AlternatingReducer(model.parameters(), 3 << 20, torch.device("cuda", rank))
    for _ in range(steps):
        x = torch.randn(64, 1024, device="cuda")
        (model(x) - x).square().mean().backward()
        reducer.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
