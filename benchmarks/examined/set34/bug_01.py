"""Offline scoring job: runs a model over a dataset and stores predictions per epoch."""
import os
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def move_to_host(data):
    if isinstance(data, torch.Tensor):
        return data.to("cpu", non_blocking=True)
    if isinstance(data, Mapping):
        return {k: move_to_host(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return type(data)(move_to_host(v) for v in data)
    return data


class Scorer(nn.Module):
    def __init__(self, dim=1024, classes=256, depth=12):
        super().__init__()
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        logits = self.head(self.body(x))
        return {"scores": logits.softmax(-1), "label": logits.argmax(-1)}


class EpochWriter:
    def __init__(self, root, interval="epoch"):
        self.root = root
        self.interval = interval
        os.makedirs(root, exist_ok=True)

    def write_batch(self, idx, prediction):
        np.savez(
            os.path.join(self.root, f"part_{idx:05d}.npz"),
            scores=prediction["scores"].numpy(),
            label=prediction["label"].numpy(),
        )

    def write_epoch(self, predictions):
        for idx, prediction in enumerate(predictions):
            self.write_batch(idx, prediction)


class PredictionLoop:
    def __init__(self, model, writer, device):
        self.model = model.to(device).eval()
        self.writer = writer
        self.device = device
        self._predictions = []

    def _step(self, batch):
        (x,) = batch
        x = x.to(self.device, non_blocking=True)
        return self.model(x)

    @torch.inference_mode()
    def run(self, loader):
        self._predictions.clear()
        for batch in loader:
            out = self._step(batch)
            self._predictions.append(move_to_host(out))
        if self.writer.interval == "epoch":
            self.writer.write_epoch(self._predictions)
        return len(self._predictions)


def main():
    data = TensorDataset(torch.randn(4096, 1024))
    loader = DataLoader(data, batch_size=256, pin_memory=True, num_workers=2)
    loop = PredictionLoop(Scorer(), EpochWriter("/tmp/predictions"), torch.device("cuda"))
    print("batches:", loop.run(loader))


if __name__ == "__main__":
    main()
