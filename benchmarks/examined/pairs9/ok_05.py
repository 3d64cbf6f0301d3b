"""Training input: the next batch is uploaded and normalised on a side stream."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.randint(0, 256, (3, 64, 64), generator=g, dtype=torch.uint8)
        return img, i % 10


class CUDAPrefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
            self.std = torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)

    def __iter__(self):
        self._it = iter(self.loader)
        self._preload()
        while self._next is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            batch = self._next
            for t in batch:
                t.record_stream(torch.cuda.current_stream(self.device))
            self._preload()
            yield batch

    def _preload(self):
        try:
            images, labels = next(self._it)
        except StopIteration:
            self._next = None
            return
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True).float()
            labels = labels.to(self.device, non_blocking=True)
            images = images.sub_(self.mean).div_(self.std)
        self._next = (images, labels)


def main():
    device = torch.device("cuda")
    loader = DataLoader(RandomImages(), batch_size=64, num_workers=4, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(64, 10)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for images, labels in CUDAPrefetcher(loader, device):
            loss = nn.functional.cross_entropy(model(images), labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
