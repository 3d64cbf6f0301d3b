"""Two-stage trace filter: smoothing and decimation run on separate streams."""
from typing import Iterable, List

import numpy as np
from numba import cuda


@cuda.jit
def smooth_kernel(x, y, radius):
    i = cuda.grid(1)
    n = x.shape[0]
    if i < n:
        total = 0.0
        count = 0
        for k in range(max(0, i - radius), min(n, i + radius + 1)):
            total += x[k]
            count += 1
        y[i] = total / count


@cuda.jit
def decimate_kernel(y, z, factor):
    i = cuda.grid(1)
    if i < z.shape[0]:
        z[i] = y[i * factor]


class Stage:
    def __init__(self, length: int, factor: int):
        self.host = cuda.pinned_array(length, dtype=np.float32)
        self.x = cuda.device_array(length, dtype=np.float32)
        self.y = cuda.device_array(length, dtype=np.float32)
        self.z = cuda.device_array(length // factor, dtype=np.float32)
        self.smoothed = cuda.event(timing=False)
        self.decimated = cuda.event(timing=False)
        self.result = cuda.pinned_array(length // factor, dtype=np.float32)
        self.pending = False


class TraceFilter:
    def __init__(self, length: int, radius: int, factor: int, depth: int = 3):
        self.length = length
        self.radius = radius
        self.factor = factor
        self.front = cuda.stream()
        self.back = cuda.stream()
        self.stages: List[Stage] = [Stage(length, factor) for _ in range(depth)]
        self.next = 0

    def _harvest(self, stage: Stage, out: List[np.ndarray]) -> None:
        if stage.pending:
            stage.decimated.synchronize()
            stage.pending = False
            out.append(stage.result.copy())

    def _issue(self, stage: Stage, trace: np.ndarray) -> None:
        stage.host[:] = trace
        try:
            stage.x.copy_to_device(stage.host, stream=self.front)
            smooth_kernel[(self.length + 255) // 256, 256, self.front](stage.x, stage.y, self.radius)
            stage.smoothed.record(self.front)
            stage.smoothed.wait(self.back)
            decimate_kernel[(stage.z.shape[0] + 255) // 256, 256, self.back](stage.y, stage.z, self.factor)
            stage.z.copy_to_host(stage.result, stream=self.back)
            stage.decimated.record(self.back)
        except BaseException:
            self.front.synchronize()
            self.back.synchronize()
            raise
        stage.pending = True

    def process(self, traces: Iterable[np.ndarray]) -> List[np.ndarray]:
        out: List[np.ndarray] = []
        for stage in self.stages:
            self._harvest(stage, [])
        for trace in traces:
            if len(trace) != self.length:
                raise ValueError("trace length")
            stage = self.stages[self.next]
            self._harvest(stage, out)
            self._issue(stage, trace)
            self.next = (self.next + 1) % len(self.stages)
        for k in range(len(self.stages)):
            self._harvest(self.stages[(self.next + k) % len(self.stages)], out)
        return out


def decimated_energy(traces: List[np.ndarray], radius: int = 4, factor: int = 8) -> List[float]:
    if not traces:
        return []
    flt = TraceFilter(len(traces[0]), radius, factor)
    return [float(np.square(t).sum()) for t in flt.process(traces)]
