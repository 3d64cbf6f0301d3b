"""Iterates a pinned DataLoader one batch ahead of the training loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BatchPrefetcher:
    def __init__(self, loader, device, mean, std):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor(mean, device=self.device).view(1, 3, 1, 1)
            self.std = torch.tensor(std, device=self.device).view(1, 3, 1, 1)

    def __len__(self):
        return len(self.loader)

    def _load(self, it):
        try:
            images, target = next(it)
        except StopIteration:
            return None
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True)
            target = target.to(self.device, non_blocking=True)
            images = images.float().sub_(self.mean).div_(self.std)
            ready = self.stream.record_event()
        return images, target, ready

    def __iter__(self):
        it = iter(self.loader)
        ahead = self._load(it)
        while ahead is not None:
            images, target, ready = ahead
            current = torch.cuda.current_stream(self.device)
            current.wait_event(ready)
            images.record_stream(current)
            target.record_stream(current)
            ahead = self._load(it)
            yield images, target


def make_loader(n=512, batch=64):
    images = torch.randint(0, 255, (n, 3, 32, 32), dtype=torch.uint8)
    target = torch.randint(0, 10, (n,))
    return DataLoader(TensorDataset(images, target), batch_size=batch,
                      shuffle=True, pin_memory=True, drop_last=False)


def train_one_epoch(model, batches, optimizer, criterion):
    model.train()
    total = None
    for images, target in batches:
        loss = criterion(model(images), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total = loss.detach() if total is None else total + loss.detach()
    return 0.0 if total is None else total.item() / len(batches)


def main():
    device = torch.device("cuda", 0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = BatchPrefetcher(make_loader(), device,
                              [123.7, 116.3, 103.5], [58.4, 57.1, 57.4])
    for epoch in range(3):
        print(epoch, train_one_epoch(model, batches, optimizer, nn.CrossEntropyLoss()))


if __name__ == "__main__":
    main()
