import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __len__(self):
        return len(self.loader)

    def _move(self, batch):
        if self.stream is None:
            return [t.to(self.device) for t in batch]
        with torch.cuda.stream(self.stream):
            return [t.to(self.device, non_blocking=True) for t in batch]

    def _join(self, batch):
        if self.stream is not None:
            now = torch.cuda.current_stream(self.device)
            now.wait_stream(self.stream)
            for t in batch:
                t.record_stream(now)
        return batch

    def __iter__(self):
        held = None
        for batch in self.loader:
            moved = self._move(batch)
            if held is not None:
                yield held
            held = self._join(moved)
        if held is not None:
            yield held


def make_loader(args, device):
    xs = torch.randn(2048, 64)
    data = TensorDataset(xs, xs.sum(-1, keepdim=True))
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, pin_memory=device.type == "cuda")
    loader = Prefetcher(loader, device)
    return loader


def train(model, loader, epochs):
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(epoch, total / len(loader))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ap.add_argument("--batch", type=int, default=128)
    args = ap.parse_args()
    device = torch.device(args.device)
    loader = make_loader(args, device)
    train(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device), loader, 3)


if __name__ == "__main__":
    main()
