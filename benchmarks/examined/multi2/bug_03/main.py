import numpy as np
import torch
from torch import nn

from device_iter import DeviceBatches
from feeder import Feeder
from trays import TrayRack


class NoiseImages:
    def __init__(self, n=4096):
        self.n = n
        self.rng = np.random.default_rng(0)
        self.bank = self.rng.integers(0, 255, size=(64, 3, 224, 224), dtype=np.uint8)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.bank[i % 64], i % 10


def make_net():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3),
        nn.Conv2d(64, 128, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 10),
    )


def main():
    torch.cuda.set_device(0)
    net = make_net().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    lossf = nn.CrossEntropyLoss()
    rack = TrayRack(n=3, batch=128)
    Feeder(NoiseImages(), rack, epochs=2).start()
    total = torch.zeros((), device="cuda")
    for step, (images, labels) in enumerate(DeviceBatches(rack)):
        loss = lossf(net(images), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
    print("mean loss", (total / (step + 1)).item())


if __name__ == "__main__":
    main()
