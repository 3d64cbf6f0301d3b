"""Prefetching loader wrapper for a classification run."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PrefetchLoader:
    def __init__(self, loader, mean, std, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.mean = torch.tensor(mean, device=device).view(1, -1, 1, 1)
        self.std = torch.tensor(std, device=device).view(1, -1, 1, 1)

    def __len__(self):
        return len(self.loader)

    def _stage(self, images, target):
        with torch.cuda.stream(self.stream):
            images = images.to(self.device, non_blocking=True).float()
            target = target.to(self.device, non_blocking=True)
            return images.sub(self.mean).div(self.std), target

    def __iter__(self):
        main = torch.cuda.current_stream(self.device)
        staged = None
        for images, target in self.loader:
            if staged is not None:
                main.wait_stream(self.stream)
                for t in staged:
                    t.record_stream(main)
            upcoming = self._stage(images, target)
            if staged is not None:
                yield staged
            staged = upcoming
        if staged is not None:
            for t in staged:
                t.record_stream(main)
            yield staged


def main():
    device = torch.device("cuda")
    data = TensorDataset(torch.randint(0, 256, (4096, 3, 96, 96), dtype=torch.uint8),
                         torch.randint(0, 100, (4096,)))
    loader = PrefetchLoader(DataLoader(data, 256, shuffle=True, num_workers=2, pin_memory=True),
                            [124.0, 116.0, 104.0], [58.0, 57.0, 57.0], device)
    torch.cuda.synchronize()
    net = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        for images, target in loader:
            loss = nn.functional.cross_entropy(net(images), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
