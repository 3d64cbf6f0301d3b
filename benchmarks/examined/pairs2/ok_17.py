"""Batch prefetcher in the style of the old apex example."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class DataPrefetcher:
    def __init__(self, loader):
        self.loader = loader
        self.stream = torch.cuda.Stream()

    def _upload(self, it):
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):
            x, y = (t.cuda(non_blocking=True) for t in batch)
            x = x.float().sub_(127.5).div_(58.0)
        return x, y

    def __iter__(self):
        it = iter(self.loader)
        upcoming = self._upload(it)
        while upcoming is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            current = upcoming
            for t in current:
                t.record_stream(torch.cuda.current_stream())
            upcoming = self._upload(it)
            yield current


def main():
    images = torch.randint(0, 255, (4096, 3 * 32 * 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (4096,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=128, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Linear(3 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    for _ in range(5):
        for x, y in DataPrefetcher(loader):
            loss = criterion(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(loss.item())


if __name__ == "__main__":
    main()
