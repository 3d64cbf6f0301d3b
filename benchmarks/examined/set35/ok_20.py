"""CuPy preprocessing handed to a PyTorch model through DLPack."""
from typing import Iterator, List

import cupy as cp
import numpy as np
import torch
import torch.nn as nn

_standardize = cp.ElementwiseKernel(
    "float32 x, float32 mean, float32 scale", "float32 y", "y = (x - mean) * scale",
    "standardize")


class Preprocessor:
    """Cleans and standardises tables on its own stream."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _clean(self, raw: np.ndarray) -> cp.ndarray:
        x = cp.asarray(raw)
        x = cp.where(cp.isfinite(x), x, cp.float32(0.0))
        mean = x.mean(axis=1, keepdims=True)
        scale = 1.0 / (x.std(axis=1, keepdims=True) + cp.float32(1e-6))
        return _standardize(x, mean, scale.astype(cp.float32))

    def to_torch(self, raw: np.ndarray) -> torch.Tensor:
        with self.stream:
            cleaned = self._clean(raw)
            owned = torch.from_dlpack(cleaned).clone()
            consumer = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
            self.stream.wait_event(consumer.record())
        return owned


class Encoder(nn.Module):
    def __init__(self, features: int, hidden: int, out: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Service:
    def __init__(self, encoder: Encoder, device: torch.device):
        self.encoder = encoder.to(device).eval()
        self.preprocessor = Preprocessor()
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.inference_mode()
    def embed(self, tables: List[np.ndarray]) -> List[np.ndarray]:
        results = []
        with torch.cuda.stream(self.stream):
            for table in tables:
                batch = self.preprocessor.to_torch(table)
                results.append(self.encoder(batch).cpu().numpy())
        return results


def tables(count: int, rows: int, features: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(2)
    for i in range(count):
        table = rng.normal(i, 2.0, size=(rows, features)).astype(np.float32)
        table[rng.random((rows, features)) < 0.01] = np.nan
        yield table


def main() -> None:
    device = torch.device("cuda", 0)
    service = Service(Encoder(512, 2048, 64), device)
    vectors = service.embed(list(tables(12, rows=8192, features=512)))
    print([round(float(np.abs(v).mean()), 4) for v in vectors])


if __name__ == "__main__":
    main()
