"""Runs a small task graph of kernels, one stream per lane, linked by events."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from numba import cuda


@cuda.jit
def scale(src, factor, dst):
    i = cuda.grid(1)
    if i < src.shape[0]:
        dst[i] = src[i] * factor


@cuda.jit
def add(a, b, dst):
    i = cuda.grid(1)
    if i < a.shape[0]:
        dst[i] = a[i] + b[i]


@cuda.jit
def wave(src, dst):
    i = cuda.grid(1)
    if i < src.shape[0]:
        left = src[i - 1] if i > 0 else src[i]
        right = src[i + 1] if i + 1 < src.shape[0] else src[i]
        dst[i] = 0.25 * left + 0.5 * src[i] + 0.25 * right


@dataclass
class Task:
    name: str
    launch: Callable
    needs: list[str] = field(default_factory=list)


class TaskGraph:
    def __init__(self, lanes: int = 3) -> None:
        self.streams = [cuda.stream() for _ in range(lanes)]
        self.tasks: list[Task] = []
        self.done: dict[str, object] = {}
        self.lane: dict[str, int] = {}

    def add(self, name: str, launch: Callable, *needs: str) -> None:
        if name in self.lane:
            raise ValueError(f"duplicate task {name}")
        for need in needs:
            if need not in self.lane:
                raise ValueError(f"unknown dependency {need}")
        self.lane[name] = len(self.tasks) % len(self.streams)
        self.done[name] = cuda.event(timing=False)
        self.tasks.append(Task(name, launch, list(needs)))

    def run(self) -> None:
        try:
            for task in self.tasks:
                lane = self.lane[task.name]
                stream = self.streams[lane]
                for need in task.needs:
                    if self.lane[need] != lane:
                        self.done[need].wait(stream)
                task.launch(stream)
                self.done[task.name].record(stream)
        finally:
            for stream in self.streams:
                stream.synchronize()


def diamond(values: np.ndarray) -> np.ndarray:
    n = values.size
    blocks = -(-n // 128)
    x, a, b, c, out = (cuda.device_array(n, dtype=np.float64) for _ in range(5))
    host_in = cuda.pinned_array(n, dtype=np.float64)
    host_in[:] = values
    host_out = cuda.pinned_array(n, dtype=np.float64)
    graph = TaskGraph()
    graph.add("load", lambda s: x.copy_to_device(host_in, stream=s))
    graph.add("wave", lambda s: wave[blocks, 128, s](x, a), "load")
    graph.add("half", lambda s: scale[blocks, 128, s](x, 0.5, b), "load")
    graph.add("more", lambda s: wave[blocks, 128, s](a, c), "wave")
    graph.add("join", lambda s: add[blocks, 128, s](b, c, out), "half", "more")
    graph.add("save", lambda s: out.copy_to_host(host_out, stream=s), "join")
    graph.run()
    return np.array(host_out)


def main() -> None:
    rng = np.random.default_rng(4)
    for size in (1000, 100_000, 1_000_000):
        x = rng.standard_normal(size)
        print(size, diamond(x).std())


if __name__ == "__main__":
    main()
