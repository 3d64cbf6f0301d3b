"""Supervised training of a policy/value network with a prefetching loader."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

FEATURES = 62
MOVES = 2187

HCPE = np.dtype([
    ("hcp", np.uint8, 32),
    ("eval", np.int16),
    ("bestMove16", np.int16),
    ("gameResult", np.uint8),
    ("dummy", np.uint8),
])


def decode_hcpe(hcpevec, features, move, value):
    n = len(hcpevec)
    bits = np.unpackbits(hcpevec["hcp"], axis=1)
    planes = np.resize(bits, (n, FEATURES, 9, 9))
    features[:n] = planes
    move[:n] = hcpevec["bestMove16"].astype(np.int64) % MOVES
    value[:n, 0] = 1.0 / (1.0 + np.exp(-hcpevec["eval"] / 756.0))


class HcpeDataLoader:
    def __init__(self, data, batch_size, device, shuffle=False):
        self.data = data
        self.batch_size = batch_size
        self.device = device
        self.shuffle = shuffle
        self.torch_features = torch.empty(batch_size, FEATURES, 9, 9, pin_memory=True)
        self.torch_move = torch.empty(batch_size, dtype=torch.int64, pin_memory=True)
        self.torch_value = torch.empty(batch_size, 1, pin_memory=True)
        self.features = self.torch_features.numpy()
        self.move = self.torch_move.numpy()
        self.value = self.torch_value.numpy()
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.i = 0

    def mini_batch(self, hcpevec):
        decode_hcpe(hcpevec, self.features, self.move, self.value)
        return (
            self.torch_features.to(self.device, non_blocking=True),
            self.torch_move.to(self.device, non_blocking=True),
            self.torch_value.to(self.device, non_blocking=True),
        )

    def pre_fetch(self):
        hcpevec = self.data[self.i:self.i + self.batch_size]
        self.i += self.batch_size
        if len(hcpevec) < self.batch_size:
            self.f = None
            return
        self.f = self.executor.submit(self.mini_batch, hcpevec)

    def __iter__(self):
        self.i = 0
        if self.shuffle:
            np.random.shuffle(self.data)
        self.pre_fetch()
        return self

    def __next__(self):
        if self.f is None:
            raise StopIteration()
        result = self.f.result()
        self.pre_fetch()
        return result

    def __len__(self):
        return len(self.data) // self.batch_size


class PolicyValueNetwork(nn.Module):
    def __init__(self, channels=192, blocks=10):
        super().__init__()
        self.stem = nn.Conv2d(FEATURES, channels, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(blocks))
        self.policy = nn.Conv2d(channels, 27, 1)
        self.value = nn.Linear(channels, 1)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.policy(x).flatten(1), self.value(x.mean((2, 3)))


def train(data, epochs=1, batch_size=1024):
    device = torch.device("cuda:0")
    model = PolicyValueNetwork().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = HcpeDataLoader(data, batch_size, device, shuffle=True)
    for epoch in range(epochs):
        sum_loss = torch.zeros((), device=device)
        for x, t1, t2 in loader:
            y1, y2 = model(x)
            loss = nn.functional.cross_entropy(y1, t1)
            loss = loss + nn.functional.binary_cross_entropy_with_logits(y2, t2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sum_loss += loss.detach()
        print(epoch, sum_loss.item() / len(loader))


if __name__ == "__main__":
    train(np.fromfile("teacher.hcpe", dtype=HCPE))
