import os

import torch
import torch.distributed as dist
import torch.nn as nn

from engine import build
from engine.wiring import warmup_lr


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 128, 3, padding=1, stride=2), nn.BatchNorm2d(128), nn.ReLU(),
            nn.Conv2d(128, 256, 3, padding=1, stride=2), nn.BatchNorm2d(256), nn.ReLU(),
        )
        self.fc = nn.Linear(256, 10)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class Trainer:
    def __init__(self, model, optimizer, base_lr):
        self.model = model
        self.optimizer = optimizer
        self.base_lr = base_lr
        self.loss_fn = nn.CrossEntropyLoss()

    def step(self, i, x, y):
        warmup_lr(self.optimizer, i, self.base_lr, over=100)
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = ConvNet().cuda()
    for t in model.state_dict().values():
        dist.broadcast(t, 0)
    trainer = Trainer(model, build(model, dist.get_world_size(), 0.1), 0.1)
    for i in range(500):
        x = torch.randn(128, 3, 32, 32, device="cuda")
        y = torch.randint(0, 10, (128,), device="cuda")
        loss = trainer.step(i, x, y)
        if i % 100 == 0 and rank == 0:
            print(i, float(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
