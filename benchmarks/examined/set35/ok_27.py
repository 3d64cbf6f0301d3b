"""Feature upload through two pinned slots, paced by the reported step value."""
from typing import Iterator, List, Tuple

import numpy as np
import torch
import torch.nn as nn


class Autoencoder(nn.Module):
    def __init__(self, width: int, code: int = 64):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, code))
        self.decode = nn.Sequential(nn.Linear(code, 1024), nn.ReLU(), nn.Linear(1024, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(x))


def batches(count: int, rows: int, width: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((16, width), dtype=np.float32)
    for _ in range(count):
        yield rng.standard_normal((rows, 16), dtype=np.float32) @ basis


class Fitter:
    def __init__(self, rows: int, width: int):
        self.model = Autoencoder(width).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.history: List[Tuple[int, float]] = []
        self.upload = torch.cuda.Stream()
        self.host = [torch.empty(rows, width, pin_memory=True) for _ in range(2)]
        self.device = [torch.empty(rows, width, device="cuda") for _ in range(2)]
        self.upload.wait_stream(torch.cuda.current_stream())

    def step(self, index: int, rows: np.ndarray) -> float:
        slot = index % 2
        np.copyto(self.host[slot].numpy(), rows)
        with torch.cuda.stream(self.upload):
            self.device[slot].copy_(self.host[slot], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.upload)
        x = self.device[slot]
        loss = nn.functional.mse_loss(self.model(x), x)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        drift = torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()
        value = (loss.detach() + 1e-3 * drift).item()
        self.history.append((index, value))
        return value


def main() -> None:
    rows, width = 8192, 512
    fitter = Fitter(rows, width)
    for i, chunk in enumerate(batches(200, rows, width)):
        value = fitter.step(i, chunk)
        if i % 20 == 0:
            print(i, value)


if __name__ == "__main__":
    main()
