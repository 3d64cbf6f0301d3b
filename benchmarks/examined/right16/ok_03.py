"""Ring of page-locked staging slots used to push numpy arrays to the GPU."""
from __future__ import annotations

import threading

import numpy as np
import torch


class StagingRing:
    def __init__(self, slot_elems: int, depth: int = 3, device: str = "cuda:0"):
        if depth < 1:
            raise ValueError("depth must be positive")
        self.device = torch.device(device)
        self.slot_elems = slot_elems
        self._slots = [torch.empty(slot_elems, dtype=torch.float32, pin_memory=True) for _ in range(depth)]
        self._copied = [torch.cuda.Event() for _ in range(depth)]
        self._stream = torch.cuda.Stream(device=self.device)
        self._next = 0
        self._lock = threading.Lock()

    def upload(self, array: np.ndarray) -> torch.Tensor:
        flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
        if flat.size > self.slot_elems:
            raise ValueError(f"array of {flat.size} elements exceeds a slot of {self.slot_elems}")
        with self._lock:
            index = self._next
            self._next = (index + 1) % len(self._slots)
            event = self._copied[index]
            event.synchronize()
            host = self._slots[index][: flat.size]
            host.copy_(torch.from_numpy(flat))
            with torch.cuda.stream(self._stream):
                dev = host.to(self.device, non_blocking=True)
                event.record()
            consumer = torch.cuda.current_stream(self.device)
            consumer.wait_event(event)
        dev.record_stream(consumer)
        return dev.view(array.shape)

    def upload_many(self, arrays: list[np.ndarray]) -> list[torch.Tensor]:
        return [self.upload(a) for a in arrays]


class RunningMoments:
    def __init__(self, width: int, device: torch.device):
        self.count = 0
        self.total = torch.zeros(width, device=device)
        self.square = torch.zeros(width, device=device)

    def update(self, rows: torch.Tensor) -> None:
        self.count += rows.shape[0]
        self.total += rows.sum(dim=0)
        self.square += rows.square().sum(dim=0)

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        mean = self.total / max(self.count, 1)
        var = self.square / max(self.count, 1) - mean.square()
        return mean.cpu().numpy(), var.cpu().numpy()


def main() -> None:
    ring = StagingRing(slot_elems=1 << 18)
    moments = RunningMoments(256, ring.device)
    rng = np.random.default_rng(3)
    scratch = np.empty((1024, 256), dtype=np.float32)
    for _ in range(100):
        scratch[:] = rng.standard_normal(scratch.shape)
        moments.update(ring.upload(scratch))
    mean, var = moments.result()
    print(float(np.abs(mean).max()), float(var.mean()))


if __name__ == "__main__":
    main()
