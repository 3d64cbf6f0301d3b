"""Step metrics are collected in pinned rows and written out once per window."""
import csv

import torch
import torch.nn as nn


class MetricWindow:
    FIELDS = ("step", "loss", "grad_norm", "lr")

    def __init__(self, path, window=32):
        self.rows = torch.zeros(window, 2, pin_memory=True)
        self.meta = [None] * window
        self.window = window
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(self.FIELDS)
        self.count = 0

    def add(self, step, loss, norm, lr):
        slot = self.count % self.window
        self.rows[slot].copy_(torch.stack([loss, norm]), non_blocking=True)
        self.meta[slot] = (step, lr)
        self.count += 1
        if self.count % self.window == 0:
            self._drain(self.window)

    def _drain(self, n):
        torch.cuda.current_stream().synchronize()
        for (step, lr), (loss, norm) in zip(self.meta[:n], self.rows[:n].tolist()):
            self.writer.writerow([step, f"{loss:.6f}", f"{norm:.6f}", lr])

    def close(self):
        self._drain(self.count % self.window)
        self.file.close()


def main(steps=1000):
    model = nn.Sequential(nn.Linear(128, 1024), nn.Mish(), nn.Linear(1024, 128)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    metrics = MetricWindow("metrics.csv")
    for step in range(steps):
        x = torch.randn(512, 128, device="cuda")
        loss = (model(x) - x.cumsum(1)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        metrics.add(step, loss.detach(), norm.detach(), schedule.get_last_lr()[0])
        schedule.step()
    metrics.close()


if __name__ == "__main__":
    main()
