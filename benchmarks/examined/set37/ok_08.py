"""Records of a binary log are normalized on the GPU; the reader owns a single reusable array."""
from typing import Iterator, Optional, Tuple

import numpy as np
import torch
from torch import nn


class RecordReader:
    """Yields the same array for every record; it is valid until the next call."""

    def __init__(self, records: int, rows: int, width: int, seed: int = 0):
        self._buffer = np.empty((rows, width), dtype=np.int16)
        self._left = records
        self._rng = np.random.default_rng(seed)

    def __iter__(self) -> "RecordReader":
        return self

    def __next__(self) -> np.ndarray:
        if self._left == 0:
            raise StopIteration
        self._left -= 1
        self._buffer[...] = self._rng.integers(-2048, 2048, self._buffer.shape, dtype=np.int16)
        return self._buffer


class DeviceFeeder:
    """Keeps one record in flight ahead of the consumer."""

    def __init__(self, reader: Iterator[np.ndarray], device: torch.device):
        self.reader = iter(reader)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._ahead: Optional[Tuple[torch.Tensor, torch.cuda.Event]] = self._load()

    def _load(self) -> Optional[Tuple[torch.Tensor, torch.cuda.Event]]:
        record = next(self.reader, None)
        if record is None:
            return None
        locked = torch.from_numpy(record).pin_memory()
        with torch.cuda.stream(self.stream):
            sample = locked.to(self.device, non_blocking=True).float().div_(2048.0)
            return sample, self.stream.record_event()

    def __iter__(self) -> "DeviceFeeder":
        return self

    def __next__(self) -> torch.Tensor:
        if self._ahead is None:
            raise StopIteration
        sample, ready = self._ahead
        consumer = torch.cuda.current_stream(self.device)
        consumer.wait_event(ready)
        sample.record_stream(consumer)
        self._ahead = self._load()
        return sample


class AnomalyModel(nn.Module):
    def __init__(self, width: int, code: int = 32):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, code))
        self.decode = nn.Sequential(nn.Linear(code, 1024), nn.ReLU(), nn.Linear(1024, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.decode(self.encode(x)) - x).square().mean(dim=1)


@torch.no_grad()
def scan(model: AnomalyModel, feeder: DeviceFeeder) -> torch.Tensor:
    worst = [model(sample).amax() for sample in feeder]
    return torch.stack(worst).cpu()


def main() -> None:
    device = torch.device("cuda")
    model = AnomalyModel(256).to(device).eval()
    feeder = DeviceFeeder(RecordReader(64, 65536, 256), device)
    print(scan(model, feeder))


if __name__ == "__main__":
    main()
