"""Gradient bucket that is reduced on a communication stream while backward goes on."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class OverlappedReducer:
    def __init__(self, params, bucket_numel, device):
        self.params = [p for p in params if p.requires_grad]
        self.buffer = torch.zeros(bucket_numel, device=device)
        self.world = dist.get_world_size()
        self.reduction = torch.cuda.Stream(device)
        self.entries = []
        self.filled = 0
        torch.cuda.synchronize(device)
        for p in self.params:
            if p.numel() > bucket_numel:
                raise ValueError("bucket is smaller than a parameter")
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        n = param.numel()
        if self.filled + n > self.buffer.numel():
            self._reduce_bucket()
        start = self.filled
        self.buffer[start:start + n].copy_(param.grad.reshape(-1))
        self.entries.append((param, start, n))
        self.filled += n

    def _reduce_bucket(self):
        if not self.entries:
            return
        self.reduction.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction):
            flat = self.buffer[: self.filled]
            flat.div_(self.world)
            dist.all_reduce(flat)
            for param, start, n in self.entries:
                param.grad.reshape(-1).copy_(flat[start:start + n])
        self.entries = []
        self.filled = 0

    def finish(self):
        self._reduce_bucket()
        torch.cuda.current_stream().wait_stream(self.reduction)


def train(steps=100):
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(16)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    reducer = OverlappedReducer(model.parameters(), 4 << 20, torch.device("cuda", rank))
    total = torch.zeros((), device="cuda")
    for _ in range(steps):
        x = torch.randn(64, 1024, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        reducer.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        total += loss.detach()
    print(rank, (total / steps).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
