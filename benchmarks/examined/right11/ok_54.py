from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Callable

import cupy as cp
import numpy as np

num_devices = cp.cuda.runtime.getDeviceCount()
_streams = []
for _id in range(num_devices):
    with cp.cuda.Device(_id):
        _streams.append(cp.cuda.Stream(non_blocking=True))


def _on_device(fn: Callable, device_id: int, *args):
    with cp.cuda.Device(device_id), _streams[device_id] as stream:
        result = fn(device_id, *args)
        stream.synchronize()
        return result


def run(fn: Callable, *args) -> list:
    """Calls fn(device_id, ...) once per device, each from a thread."""
    if num_devices == 1:
        return [_on_device(fn, 0, *args)]
    with ThreadPoolExecutor(max_workers=num_devices) as pool:
        futures = [pool.submit(_on_device, fn, i, *args) for i in range(num_devices)]
        return [f.result() for f in futures]


def broadcast(array: cp.ndarray) -> list[cp.ndarray]:
    cp.cuda.get_current_stream().synchronize()

    def copy(device_id: int) -> cp.ndarray:
        return array if device_id == 0 else cp.asarray(array)

    return run(copy)


def reduce_to_device(parts: list[cp.ndarray]) -> cp.ndarray:
    total = parts[0].copy()
    for part in parts[1:]:
        total += cp.asarray(part)
    cp.cuda.get_current_stream().synchronize()
    return total


class CoulombLike:
    """A pair sum over host-side rows, split between the devices."""

    def __init__(self, points: np.ndarray, block: int = 512) -> None:
        self.points = points
        self.block = block

    def _partial(self, device_id: int, density: list[cp.ndarray], everything: list[cp.ndarray]) -> cp.ndarray:
        pts, rho = everything[device_id], density[device_id]
        out = cp.zeros(self.points.shape[0])
        for lo in range(device_id * self.block, self.points.shape[0], num_devices * self.block):
            rows = pts[lo : lo + self.block]
            dist = cp.sqrt(((rows[:, None, :] - pts[None]) ** 2).sum(-1) + 1e-6)
            out[lo : lo + self.block] = (rho[None] / dist).sum(1)
        return out

    def potential(self, density: np.ndarray) -> np.ndarray:
        with cp.cuda.Device(0):
            rho = broadcast(cp.asarray(density))
            pts = broadcast(cp.asarray(self.points))
            parts = run(self._partial, rho, pts)
            return reduce_to_device(parts).get()


def main() -> None:
    rng = np.random.default_rng(0)
    system = CoulombLike(rng.random((4096, 3)))
    density = np.ones(4096)
    for _ in range(5):
        v = system.potential(density)
        density = 0.5 * density + 0.5 * np.exp(-v / v.max())
    print(density.mean())


if __name__ == "__main__":
    main()
