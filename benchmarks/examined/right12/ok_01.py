import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ByteImages(Dataset):
    def __init__(self, length=512, size=64, classes=10):
        self.length = length
        self.size = size
        self.classes = classes

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        gen = torch.Generator().manual_seed(index)
        image = torch.randint(0, 256, (3, self.size, self.size), dtype=torch.uint8, generator=gen)
        return image, index % self.classes


class Prefetcher:
    def __init__(self, loader, device):
        self.batches = iter(loader)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
            self.std = torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)
        self.images = None
        self.target = None
        self._preload()

    def _preload(self):
        try:
            images, target = next(self.batches)
        except StopIteration:
            self.images = None
            self.target = None
            return
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True)
            self.target = target.to(self.device, non_blocking=True)
            self.images = images.float().sub_(self.mean).div_(self.std)

    def next(self):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        images, target = self.images, self.target
        if images is None:
            return None, None
        images.record_stream(current)
        target.record_stream(current)
        self._preload()
        return images, target


def build_model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def train(epochs, batch_size):
    device = torch.device("cuda", torch.cuda.current_device())
    model = build_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        loader = DataLoader(ByteImages(), batch_size=batch_size, shuffle=True,
                            num_workers=2, pin_memory=True, drop_last=False)
        prefetcher = Prefetcher(loader, device)
        running = torch.zeros((), device=device)
        steps = 0
        images, target = prefetcher.next()
        while images is not None:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(images), target)
            loss.backward()
            optimizer.step()
            running += loss.detach()
            steps += 1
            images, target = prefetcher.next()
        print(f"epoch {epoch}: loss {running.item() / max(steps, 1):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    train(args.epochs, args.batch_size)
