"""Training input pipeline over a fixed set of page-locked segments."""
import argparse

import numpy as np
import torch
import torch.nn as nn


class SegmentPool:
    """Fixed ring of page-locked segments, handed out in order within an epoch."""

    def __init__(self, count, shape):
        self.segments = [torch.empty(shape, dtype=torch.float32, pin_memory=True)
                         for _ in range(count)]
        self.pending = [None] * count
        self.cursor = 0

    def begin_epoch(self):
        self.cursor = 0
        self.pending = [None] * len(self.segments)

    def acquire(self):
        slot = self.cursor % len(self.segments)
        self.cursor += 1
        if self.pending[slot] is not None:
            self.pending[slot].synchronize()
            self.pending[slot] = None
        return slot, self.segments[slot]

    def attach(self, slot, event):
        self.pending[slot] = event


class SegmentLoader:
    def __init__(self, data, batch, pool, seed=0):
        self.data = data
        self.batch = batch
        self.pool = pool
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.data) // self.batch

    def __iter__(self):
        self.pool.begin_epoch()
        order = self.rng.permutation(len(self.data))
        for i in range(len(self)):
            ids = order[i * self.batch:(i + 1) * self.batch]
            slot, seg = self.pool.acquire()
            np.take(self.data, ids, axis=0, out=seg.numpy())
            yield slot, seg


class DeviceFeed:
    """Moves segments to the GPU on a transfer stream."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def __iter__(self):
        main = torch.cuda.current_stream(self.device)
        for slot, seg in self.loader:
            with torch.cuda.stream(self.stream):
                rows = seg.to(self.device, non_blocking=True)
                sent = self.stream.record_event()
            self.loader.pool.attach(slot, sent)
            main.wait_event(sent)
            rows.record_stream(main)
            yield rows[:, :-1], rows[:, -1].long()


def build(dim, classes):
    return nn.Sequential(nn.Linear(dim, 1024), nn.ReLU(),
                         nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, classes))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=65536)
    ap.add_argument("--dim", type=int, default=3072)
    ap.add_argument("--batch", type=int, default=2048)
    ap.add_argument("--segments", type=int, default=6)
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    rng = np.random.default_rng(1)
    data = rng.standard_normal((args.rows, args.dim + 1), dtype=np.float32)
    data[:, -1] = data[:, :10].argmax(axis=1)
    pool = SegmentPool(args.segments, (args.batch, args.dim + 1))
    feed = DeviceFeed(SegmentLoader(data, args.batch, pool), device)
    model = build(args.dim, 10).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    track = torch.zeros(args.epochs, device=device)
    for epoch in range(args.epochs):
        for x, y in feed:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            track[epoch] += loss.detach()
    print((track / len(feed.loader)).tolist())


if __name__ == "__main__":
    main()
