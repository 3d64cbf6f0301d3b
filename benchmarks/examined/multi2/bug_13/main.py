import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from overlap import CommLane, attach, partition


class Net(nn.Module):
    def __init__(self, width=2048, depth=8, classes=1000):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = x + F.gelu(block(x))
        return self.head(x)


def train(rank: int, world: int, steps: int = 200):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    model = Net().to(device)
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    lane = CommLane(device, world)
    buckets = partition(model.parameters(), cap_mb=25)
    attach(model, buckets, lane)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for step in range(steps):
        x = torch.randn(256, 2048, device=device)
        y = torch.randint(0, 1000, (256,), device=device)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if lane.join() != len(buckets):
            raise RuntimeError("a bucket was not reduced")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 and rank == 0:
            print(step, loss.item())


if __name__ == "__main__":
    dist.init_process_group("nccl")
    train(int(os.environ["LOCAL_RANK"]), dist.get_world_size())
    dist.destroy_process_group()
