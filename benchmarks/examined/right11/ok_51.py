from __future__ import annotations

from typing import Optional

import cupy as cp
import cupyx
import numpy as np


class GpuData:
    """A device buffer that may hold any of the host blocks, one at a time."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.gpu = cp.empty(shape, dtype=cp.float32)
        self.key: Optional[int] = None
        self.cpu: Optional[np.ndarray] = None
        self.dirty = False
        self.ev_done: Optional[cp.cuda.Event] = None

    def record_done(self, stream: cp.cuda.Stream, dirty: bool) -> None:
        self.ev_done = stream.record()
        self.dirty = self.dirty or dirty

    def _follow(self, stream: cp.cuda.Stream) -> None:
        if self.ev_done is not None:
            stream.wait_event(self.ev_done)

    def from_gpu(self, stream: cp.cuda.Stream) -> None:
        if not self.dirty:
            return
        self._follow(stream)
        with stream:
            self.gpu.get(out=self.cpu, blocking=False)
        self.dirty = False
        self.record_done(stream, dirty=False)

    def to_gpu(self, cpu: np.ndarray, key: int, stream: cp.cuda.Stream) -> None:
        if self.key == key:
            return
        self.from_gpu(stream)
        self._follow(stream)
        self.key, self.cpu = key, cpu
        self.gpu.set(cpu, stream=stream)
        self.record_done(stream, dirty=False)


class GpuDataManager:
    def __init__(self, shape: tuple[int, ...], slots: int) -> None:
        self.transfer = cp.cuda.Stream(non_blocking=True)
        self.data = [GpuData(shape) for _ in range(slots)]

    def to_gpu(self, cpu: np.ndarray, key: int) -> GpuData:
        for i, item in enumerate(self.data):
            if item.key == key:
                break
        else:
            i, item = 0, self.data[0]
        self.data.append(self.data.pop(i))
        item.to_gpu(cpu, key, self.transfer)
        return item

    def sync_to_cpu(self) -> None:
        for item in self.data:
            item.from_gpu(self.transfer)
        self.transfer.synchronize()


def main() -> None:
    blocks, shape = 12, (512, 512)
    rng = np.random.default_rng(0)
    host = []
    for _ in range(blocks):
        block = cupyx.empty_pinned(shape, dtype=np.float32)
        block[:] = rng.standard_normal(shape)
        host.append(block)
    manager = GpuDataManager(shape, slots=4)
    queue = cp.cuda.Stream(non_blocking=True)
    step = cp.ElementwiseKernel("float32 g", "float32 x", "x -= g * x * x * x", "newton_like")
    cp.cuda.Device().synchronize()
    for sweep in range(5):
        for key in rng.permutation(blocks):
            item = manager.to_gpu(host[key], int(key))
            queue.wait_event(item.ev_done)
            with queue:
                step(np.float32(0.05), item.gpu)
            item.record_done(queue, dirty=True)
        manager.sync_to_cpu()
        print(sweep, float(np.mean([np.abs(b).mean() for b in host])))


if __name__ == "__main__":
    main()
