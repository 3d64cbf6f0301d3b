"""Online learner fed from NumPy; page-locked staging and device inputs are allocated once."""
from dataclasses import dataclass
from typing import Iterator, Tuple

import numpy as np
import torch
from torch import nn


@dataclass
class LearnerConfig:
    batch: int = 4096
    features: int = 512
    hidden: int = 2048
    lr: float = 1e-3


class OnlineLearner:
    def __init__(self, config: LearnerConfig, device: torch.device):
        self.config = config
        self.model = nn.Sequential(
            nn.Linear(config.features, config.hidden), nn.SiLU(), nn.Linear(config.hidden, 1)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr, fused=True)
        self.x_host = torch.empty(config.batch, config.features, pin_memory=True)
        self.y_host = torch.empty(config.batch, pin_memory=True)
        self.x = torch.empty(config.batch, config.features, device=device)
        self.y = torch.empty(config.batch, device=device)
        torch.cuda.synchronize(device)

    def _stage(self, x: np.ndarray, y: np.ndarray) -> int:
        count = len(y)
        if count > self.config.batch:
            raise ValueError(f"batch of {count} rows exceeds {self.config.batch}")
        self.x_host.numpy()[:count] = x
        self.y_host.numpy()[:count] = y
        return count

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        count = self._stage(x, y)
        inputs, targets = self.x[:count], self.y[:count]
        inputs.copy_(self.x_host[:count], non_blocking=True)
        targets.copy_(self.y_host[:count], non_blocking=True)
        loss = nn.functional.smooth_l1_loss(self.model(inputs).squeeze(-1), targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, source: Iterator[Tuple[np.ndarray, np.ndarray]]) -> float:
        average = 0.0
        for index, (x, y) in enumerate(source):
            average += (self.step(x, y) - average) / (index + 1)
        return average


def stream_of_batches(config: LearnerConfig, batches: int) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(config.features).astype(np.float32)
    for _ in range(batches):
        rows = int(rng.integers(config.batch // 2, config.batch + 1))
        x = rng.standard_normal((rows, config.features), dtype=np.float32)
        yield x, x @ truth


if __name__ == "__main__":
    settings = LearnerConfig()
    learner = OnlineLearner(settings, torch.device("cuda"))
    print(learner.fit(stream_of_batches(settings, 100)))
