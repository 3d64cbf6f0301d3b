"""Data loader wrapper that collates into preallocated page-locked tensors."""
from collections.abc import Mapping

import torch
from torch import nn


def send_to_device(obj, device, non_blocking=False):
    if isinstance(obj, torch.Tensor):
        return obj.to(device, non_blocking=non_blocking)
    if isinstance(obj, Mapping):
        return {k: send_to_device(v, device, non_blocking) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(send_to_device(v, device, non_blocking) for v in obj)
    return obj


class PinnedCollator:
    """Stacks samples into tensors that are allocated once per key."""

    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.buffers = {}

    def _buffer(self, key, sample):
        buf = self.buffers.get(key)
        if buf is None:
            buf = torch.empty((self.batch_size, *sample.shape), dtype=sample.dtype, pin_memory=True)
            self.buffers[key] = buf
        return buf

    def __call__(self, samples):
        batch = {}
        for key in samples[0]:
            buf = self._buffer(key, samples[0][key])
            for i, sample in enumerate(samples):
                buf[i].copy_(sample[key])
            batch[key] = buf[: len(samples)]
        return batch


class DeviceLoader:
    def __init__(self, dataset, batch_size, device, non_blocking=True):
        self.dataset = dataset
        self.batch_size = batch_size
        self.device = device
        self.non_blocking = non_blocking
        self.collate = PinnedCollator(batch_size)

    def __len__(self):
        return (len(self.dataset) + self.batch_size - 1) // self.batch_size

    def __iter__(self):
        order = torch.randperm(len(self.dataset)).tolist()
        for start in range(0, len(order), self.batch_size):
            samples = [self.dataset[i] for i in order[start : start + self.batch_size]]
            batch = self.collate(samples)
            yield send_to_device(batch, self.device, self.non_blocking)


class SyntheticImages:
    def __init__(self, n):
        self.images = torch.rand(n, 3, 64, 64)
        self.labels = torch.randint(0, 10, (n,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"image": self.images[i], "label": self.labels[i]}


def train(epochs=3):
    device = torch.device("cuda")
    net = nn.Sequential(
        nn.Conv2d(3, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loader = DeviceLoader(SyntheticImages(4096), 128, device)
    for epoch in range(epochs):
        running = torch.zeros((), device=device)
        for batch in loader:
            loss = nn.functional.cross_entropy(net(batch["image"]), batch["label"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.detach()
        print(epoch, running.item() / len(loader))


if __name__ == "__main__":
    train()
