"""Feature store reader: one ordinary numpy scratch array feeds every upload."""
import threading

import numpy as np
import torch
from torch import nn


class FeatureFile:
    def __init__(self, path, rows, width):
        self.data = np.memmap(path, dtype=np.float32, mode="r", shape=(rows, width))

    def gather(self, ids, out):
        np.take(self.data, ids, axis=0, out=out[:len(ids)])


class Uploader:
    """Uploads gathered rows on its own stream; the scratch array is overwritten by every call."""

    def __init__(self, store, max_rows, width, device):
        self.store = store
        self.scratch = np.empty((max_rows, width), dtype=np.float32)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.lock = threading.Lock()

    def __call__(self, ids):
        with self.lock:
            self.store.gather(ids, self.scratch)
            with torch.cuda.stream(self.stream):
                rows = torch.from_numpy(self.scratch[:len(ids)])
                moved = rows.to(self.device, non_blocking=True)
                done = torch.cuda.Event()
                done.record()
        consumer = torch.cuda.current_stream(self.device)
        consumer.wait_event(done)
        moved.record_stream(consumer)
        return moved


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, classes))

    def forward(self, x):
        return self.net(x)


def train(path, rows, width, labels, epochs=1, batch=4096, device="cuda"):
    upload = Uploader(FeatureFile(path, rows, width), batch, width, device)
    model = Classifier(width, int(labels.max()) + 1).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(epochs):
        order = rng.permutation(rows)
        for start in range(0, rows, batch):
            ids = order[start:start + batch]
            x = upload(ids)
            y = torch.from_numpy(labels[ids]).to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            losses.append(loss.detach())
    return torch.stack(losses).cpu()
