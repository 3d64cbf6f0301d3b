"""Background-stream input pipeline for a vision trainer."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.randint(0, 255, (3, 64, 64), dtype=torch.uint8), i % 10


class CudaLoader:
    def __init__(self, loader, mean=127.5, std=58.0):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.mean, self.std = mean, std
        self.batch = None

    def __len__(self):
        return len(self.loader)

    def _load(self, source):
        try:
            images, labels = next(source)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            images = images.cuda(non_blocking=True).float()
            images = (images - self.mean) / self.std
            self.batch = (images, labels.cuda(non_blocking=True))

    def __iter__(self):
        source = iter(self.loader)
        self._load(source)
        while self.batch is not None:
            images, labels = self.batch
            compute = torch.cuda.current_stream()
            images.record_stream(compute)
            labels.record_stream(compute)
            self._load(source)
            yield images, labels
            compute.wait_stream(self.stream)


def main():
    loader = CudaLoader(DataLoader(RandomImages(8192), batch_size=64, num_workers=4, pin_memory=True))
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)
    ).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
