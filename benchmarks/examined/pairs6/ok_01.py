"""Image classification trainer with a device side input pipeline."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader


class DataPrefetcher:
    def __init__(self, loader, device):
        self.loader = iter(loader)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
            self.std = torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        try:
            images, target = next(self.loader)
        except StopIteration:
            self.next_images = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True)
            self.next_target = target.to(self.device, non_blocking=True)
            self.next_images = images.float().sub_(self.mean).div_(self.std)

    def next(self):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        images, target = self.next_images, self.next_target
        if images is not None:
            images.record_stream(current)
            target.record_stream(current)
        self.preload()
        return images, target


def train_epoch(model, loader, optimizer, device):
    prefetcher = DataPrefetcher(loader, device)
    images, target = prefetcher.next()
    steps = 0
    while images is not None:
        loss = F.cross_entropy(model(images), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        images, target = prefetcher.next()
        steps += 1
    return steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/data/imagenet")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    device = torch.device("cuda", 0)
    dataset = torchvision.datasets.FakeData(size=4096, transform=torchvision.transforms.PILToTensor())
    loader = DataLoader(dataset, batch_size=128, num_workers=8, pin_memory=True, drop_last=True)
    model = torchvision.models.resnet50().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        print(epoch, train_epoch(model, loader, optimizer, device))


if __name__ == "__main__":
    main()
