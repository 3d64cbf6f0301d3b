import argparse
import json
import time

import torch
from torch import nn


class GeometryTransformer(nn.Module):
    def __init__(self, dim=256, depth=6, heads=8):
        super().__init__()
        self.embed = nn.Linear(6, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(dim, 4)

    def forward(self, points):
        return self.head(self.encoder(self.embed(points)))


class Trainer:
    def __init__(self, model, lr, device):
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=True)
        self._loss_pinned = (
            torch.zeros((), dtype=torch.float32, pin_memory=True) if device.type == "cuda" else None
        )
        self.history = []
        self.best = float("inf")

    def loss(self, pred, target):
        pressure = nn.functional.mse_loss(pred[..., :1], target[..., :1])
        shear = nn.functional.mse_loss(pred[..., 1:], target[..., 1:])
        return pressure + 0.5 * shear

    def step(self, points, target):
        points = points.to(self.device, non_blocking=True)
        target = target.to(self.device, non_blocking=True)

        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self.loss(self.model(points), target)

        if self._loss_pinned is not None:
            self._loss_pinned.copy_(loss.detach(), non_blocking=True)

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

        if self._loss_pinned is not None:
            this_loss = self._loss_pinned.item()
        else:
            this_loss = loss.detach().item()
        return this_loss

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            start, total, count = time.perf_counter(), 0.0, 0
            for points, target in loader:
                this_loss = self.step(points, target)
                total += this_loss
                count += 1
                if this_loss < self.best:
                    self.best = this_loss
            self.history.append(
                {"epoch": epoch, "loss": total / count, "seconds": time.perf_counter() - start}
            )
        return self.history


def build_loader(samples, points, batch_size):
    data = torch.utils.data.TensorDataset(
        torch.randn(samples, points, 6), torch.randn(samples, points, 4)
    )
    return torch.utils.data.DataLoader(data, batch_size=batch_size, shuffle=True, pin_memory=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    torch.manual_seed(0)
    trainer = Trainer(GeometryTransformer(), args.lr, torch.device("cuda"))
    history = trainer.fit(build_loader(256, 1024, 8), args.epochs)
    print(json.dumps({"history": history, "best": trainer.best}, indent=2))


if __name__ == "__main__":
    main()
