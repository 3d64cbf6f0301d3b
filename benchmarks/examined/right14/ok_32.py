"""Simulation snapshots handed to a consumer thread by stream host functions."""
from __future__ import annotations

import queue
import threading
from typing import Callable

import cupy as cp
import cupyx
import numpy as np


class SnapshotSink:
    def __init__(self, shape: tuple[int, int], consume: Callable[[int, np.ndarray], None], slots: int = 3):
        self.consume = consume
        self.host = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(slots)]
        self.free: queue.Queue[int] = queue.Queue()
        self.ready: queue.Queue = queue.Queue()
        for slot in range(slots):
            self.free.put(slot)
        self.error: Exception | None = None
        self.open = True
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self) -> None:
        while True:
            item = self.ready.get()
            if item is None:
                return
            step, slot = item
            try:
                if self.error is None:
                    self.consume(step, self.host[slot])
            except Exception as exc:
                self.error = exc
            finally:
                self.free.put(slot)

    def submit(self, step: int, field: cp.ndarray) -> None:
        stream = cp.cuda.get_current_stream()
        compact = field.astype(cp.float32)
        slot = self.free.get()
        try:
            compact.get(stream=stream, out=self.host[slot], blocking=False)
            stream.launch_host_func(self.ready.put, (step, slot))
        except BaseException:
            stream.synchronize()
            self.free.put(slot)
            raise

    def close(self) -> None:
        if not self.open:
            return
        self.open = False
        for _ in self.host:
            self.free.get()
        self.ready.put(None)
        self.thread.join()
        if self.error is not None:
            raise self.error


def laplacian(u: cp.ndarray) -> cp.ndarray:
    return (
        cp.roll(u, 1, 0) + cp.roll(u, -1, 0) + cp.roll(u, 1, 1) + cp.roll(u, -1, 1) - 4.0 * u
    )


def simulate(n: int, steps: int, every: int) -> list[tuple[int, float]]:
    rows: list[tuple[int, float]] = []
    sink = SnapshotSink((n, n), lambda step, a: rows.append((step, float(a.max()))))
    stream = cp.cuda.Stream(non_blocking=True)
    try:
        with stream:
            u = cp.zeros((n, n), dtype=cp.float64)
            u[n // 2, n // 2] = 1.0
            for step in range(steps):
                u += 0.2 * laplacian(u)
                if step % every == 0:
                    sink.submit(step, u)
    finally:
        sink.close()
    return rows


if __name__ == "__main__":
    for step, peak in simulate(512, 200, 20):
        print(step, peak)
