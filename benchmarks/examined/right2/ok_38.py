import math
from typing import Iterable

import numpy as np
import torch
import torch.nn as nn


class PinnedBatcher:
    """Assembles ragged samples in one pinned buffer which is used every step."""

    def __init__(self, batch: int, length: int, device: torch.device):
        self.tokens = torch.zeros(batch, length, dtype=torch.long, pin_memory=True)
        self.labels = torch.zeros(batch, dtype=torch.long, pin_memory=True)
        self.device = device

    def fill(self, samples) -> None:
        tokens, labels = self.tokens.numpy(), self.labels.numpy()
        tokens.fill(0)
        for row, (ids, label) in enumerate(samples):
            ids = np.asarray(ids)[: tokens.shape[1]]
            tokens[row, : len(ids)] = ids
            labels[row] = label

    def upload(self):
        return (self.tokens.to(self.device, non_blocking=True),
                self.labels.to(self.device, non_blocking=True))


class LossGuard:
    def __init__(self, limit: float = 1e4):
        self.limit = limit
        self.skipped = 0
        self.history: list[float] = []

    def accept(self, loss: torch.Tensor) -> bool:
        value = loss.item()
        if not math.isfinite(value) or value > self.limit:
            self.skipped += 1
            return False
        self.history.append(value)
        return True


def train(model: nn.Module, source: Iterable[list], batch: int, length: int, steps: int):
    device = torch.device("cuda", torch.cuda.current_device())
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    batcher = PinnedBatcher(batch, length, device)
    guard = LossGuard()
    for step, samples in enumerate(source):
        if step == steps:
            break
        batcher.fill(samples)
        tokens, labels = batcher.upload()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        if not guard.accept(loss):
            continue
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return guard.history, guard.skipped
