"""Fine-tuning loop that stops by itself; one staging batch is enough here."""
import numpy as np
import torch
import torch.nn as nn


class StagedBatch:
    def __init__(self, batch, features, device):
        self.host_x = torch.zeros(batch, features, pin_memory=True)
        self.host_y = torch.zeros(batch, dtype=torch.long, pin_memory=True)
        self.x = torch.zeros(batch, features, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.copied = torch.cuda.Event()

    def fill(self, rows, labels):
        np.copyto(self.host_x.numpy(), rows)
        np.copyto(self.host_y.numpy(), labels)

    def upload(self, stream):
        with torch.cuda.stream(stream):
            self.x.copy_(self.host_x, non_blocking=True)
            self.y.copy_(self.host_y, non_blocking=True)
            self.copied.record()


class Plateau:
    def __init__(self, patience=200, delta=1e-4):
        self.best, self.left = float("inf"), patience
        self.patience, self.delta = patience, delta

    def update(self, value):
        if value < self.best - self.delta:
            self.best, self.left = value, self.patience
        else:
            self.left -= 1
        return self.left <= 0


class HeadTuner:
    def __init__(self, features, classes, batch=256, device="cuda"):
        self.device = torch.device(device)
        self.head = nn.Sequential(
            nn.Linear(features, 512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, classes)
        ).to(self.device)
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=3e-4)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.batch = batch
        self.staged = StagedBatch(batch, features, self.device)
        torch.cuda.synchronize(self.device)

    def _step(self, rows, labels):
        self.staged.fill(rows, labels)
        self.staged.upload(self.copy_stream)
        torch.cuda.current_stream(self.device).wait_event(self.staged.copied)
        loss = nn.functional.cross_entropy(self.head(self.staged.x), self.staged.y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def fit(self, features, labels, limit=20_000, seed=0):
        rng = np.random.default_rng(seed)
        plateau = Plateau()
        smooth = None
        for step in range(limit):
            pick = rng.integers(0, len(features), self.batch)
            loss = self._step(features[pick], labels[pick])
            smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
            if plateau.update(smooth):
                break
        return step + 1, smooth

    @torch.inference_mode()
    def predict(self, features):
        self.head.eval()
        parts = [
            self.head(torch.from_numpy(features[i : i + 4096]).float().to(self.device)).argmax(-1)
            for i in range(0, len(features), 4096)
        ]
        self.head.train()
        return torch.cat(parts).cpu().numpy()
