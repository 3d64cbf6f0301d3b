from __future__ import annotations

import cupy as cp
import numpy as np


class Timeline:
    """An otherwise empty stream that others publish to and subscribe from."""

    def __init__(self) -> None:
        self._hub = cp.cuda.Stream(non_blocking=True)

    def publish(self, stream: cp.cuda.Stream) -> None:
        self._hub.wait_event(stream.record())

    def subscribe(self, stream: cp.cuda.Stream) -> None:
        stream.wait_event(self._hub.record())


class Sampler:
    def __init__(self, seed: int, rows: slice, timeline: Timeline) -> None:
        self.rows = rows
        self.timeline = timeline
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.step = np.uint32(seed)
        self._draw = cp.ElementwiseKernel(
            "uint32 seed",
            "float32 out",
            """
            unsigned int h = (unsigned int)i * 747796405u + seed;
            h = ((h >> ((h >> 28) + 4u)) ^ h) * 277803737u;
            out = ((h >> 22) ^ h) * 2.3283064e-10f;
            """,
            "draw",
        )

    def fill(self, table: cp.ndarray) -> None:
        self.timeline.subscribe(self.stream)
        with self.stream:
            self._draw(self.step, table[self.rows])
        self.step += np.uint32(2654435)
        self.timeline.publish(self.stream)


class Estimator:
    def __init__(self, width: int, timeline: Timeline) -> None:
        self.timeline = timeline
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.mean = cp.zeros(width, dtype=cp.float32)
        self.rounds = 0

    def absorb(self, table: cp.ndarray) -> None:
        self.timeline.subscribe(self.stream)
        with self.stream:
            self.rounds += 1
            self.mean += (table.mean(axis=0) - self.mean) / self.rounds
        self.timeline.publish(self.stream)

    def result(self) -> np.ndarray:
        with self.stream:
            return self.mean.get()


def main() -> None:
    timeline = Timeline()
    table = cp.zeros((4096, 256), dtype=cp.float32)
    timeline.publish(cp.cuda.Stream.null)
    quarter = table.shape[0] // 4
    samplers = [Sampler(k + 1, slice(k * quarter, (k + 1) * quarter), timeline) for k in range(4)]
    estimator = Estimator(table.shape[1], timeline)
    for _ in range(100):
        for sampler in samplers:
            sampler.fill(table)
        estimator.absorb(table)
    print(estimator.result().mean())


if __name__ == "__main__":
    main()
