"""Snapshots of the weights go into memory-mapped files while a thread writes them back."""
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn


class MappedSnapshot:
    """One file per parameter; ``take`` refreshes all of them."""

    def __init__(self, module, directory, device):
        os.makedirs(directory, exist_ok=True)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.entries = []
        for name, param in module.named_parameters():
            path = os.path.join(directory, name.replace(".", "_") + ".bin")
            file = np.memmap(path, dtype=np.float32, mode="w+", shape=tuple(param.shape))
            self.entries.append((param, file, torch.from_numpy(file)))
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._pending = None
        self.version = 0

    def _write_back(self, version):
        for _, file, _ in self.entries:
            file.flush()
        return version

    def wait(self):
        if self._pending is not None:
            self.version = self._pending.result()
            self._pending = None
        return self.version

    @torch.no_grad()
    def take(self, version):
        self.wait()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for param, _, view in self.entries:
                view.copy_(param.contiguous())
        self._pending = self._writer.submit(self._write_back, version)

    def load(self):
        self.wait()
        return [torch.from_numpy(np.array(file)) for _, file, _ in self.entries]

    def close(self):
        self.wait()
        self._writer.shutdown()


class ConvNet(nn.Module):
    def __init__(self, width=128, classes=100):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def train(directory, steps=100, every=10, device="cuda"):
    model = ConvNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    snapshot = MappedSnapshot(model, directory, device)
    for step in range(steps):
        images = torch.randn(64, 3, 64, 64, device=device)
        labels = torch.randint(0, 100, (64,), device=device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % every == every - 1:
            snapshot.take(step)
    restored = snapshot.load()
    snapshot.close()
    return restored


if __name__ == "__main__":
    print(len(train("/tmp/snapshot")))
