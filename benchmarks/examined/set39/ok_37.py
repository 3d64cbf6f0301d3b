"""Bucket-free DDP: gradients are reduced in hooks, updates trail by one."""
import os
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class TrailingReducer:
    def __init__(self, module, lr=1e-2, depth=1):
        self.lr = lr
        self.depth = depth
        self.world = dist.get_world_size()
        self.pending = deque()
        for p in module.parameters():
            dist.broadcast(p.data, src=0)
            p.register_post_accumulate_grad_hook(self.hook)

    def hook(self, p):
        work = dist.all_reduce(p.grad, async_op=True)
        self.pending.append((p, work))
        while len(self.pending) > self.depth:
            self._finish(*self.pending.popleft())

    @torch.no_grad()
    def _finish(self, p, work):
        work.wait()
        p.add_(p.grad, alpha=-self.lr / self.world)
        p.grad = None

    def flush(self):
        while self.pending:
            self._finish(*self.pending.popleft())


class Autoencoder(nn.Module):
    def __init__(self, width=1024, latent=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, latent))
        self.dec = nn.Sequential(nn.Linear(latent, 512), nn.ReLU(), nn.Linear(512, width))

    def forward(self, x):
        return self.dec(self.enc(x))


def evaluate(model, width, device):
    gen = torch.Generator(device=device).manual_seed(99)
    x = torch.randn(256, width, device=device, generator=gen)
    with torch.no_grad():
        return (model(x) - x).square().mean()


def main(steps=40, batch=256, width=1024):
    rank = int(os.environ.get("RANK", 0))
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")

    model = Autoencoder(width).to(device)
    reducer = TrailingReducer(model)
    for step in range(steps):
        x = torch.randn(batch, width, device=device)
        loss = (model(x) - x).square().mean()
        loss.backward()
        reducer.flush()
        if step % 10 == 0:
            score = evaluate(model, width, device)
            if rank == 0:
                print(step, float(score))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
