import ctypes

import cupy as cp
import numpy as np

CPU_DEVICE_ID = -1

diffuse = cp.ElementwiseKernel(
    "raw float32 u, int32 w, int32 n, float32 k", "float32 v",
    """
    int up = i - w < 0 ? i : i - w;
    int down = i + w >= n ? i : i + w;
    v = u[i] + k * (u[up] + u[down] - 2.0f * u[i]);
    """, "diffuse")


class ManagedField:
    """A field in managed memory with a host and a device view."""

    def __init__(self, shape, device_id: int = 0):
        self.shape = shape
        self.count = int(np.prod(shape))
        self.nbytes = self.count * 4
        self.device_id = device_id
        self.memory = cp.cuda.malloc_managed(self.nbytes)
        self.dev = cp.ndarray(shape, dtype=cp.float32, memptr=self.memory)
        raw = (ctypes.c_float * self.count).from_address(self.memory.ptr)
        self._host = np.ctypeslib.as_array(raw).reshape(shape)

    def to_device(self, stream: cp.cuda.Stream) -> cp.ndarray:
        cp.cuda.runtime.memPrefetchAsync(self.memory.ptr, self.nbytes, self.device_id, stream.ptr)
        return self.dev

    def to_host(self, stream: cp.cuda.Stream) -> np.ndarray:
        cp.cuda.runtime.memPrefetchAsync(self.memory.ptr, self.nbytes, CPU_DEVICE_ID, stream.ptr)
        stream.synchronize()
        return self._host


class Solver:
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.u = ManagedField(shape)
        self.v = ManagedField(shape)

    def load(self, values: np.ndarray) -> None:
        self.u.to_host(self.stream)[...] = values

    def advance(self, steps: int, k: float = 0.2) -> None:
        h, w = self.u.shape
        with self.stream:
            for _ in range(steps):
                src = self.u.to_device(self.stream)
                dst = self.v.to_device(self.stream)
                diffuse(src, np.int32(w), np.int32(h * w), np.float32(k), dst)
                self.u, self.v = self.v, self.u

    def add_source(self, row: int, amount: float) -> None:
        field = self.u.to_host(self.stream)
        field[row] += amount

    def snapshot(self) -> np.ndarray:
        return self.u.to_host(self.stream).copy()


def main():
    solver = Solver((512, 512))
    solver.load(np.zeros((512, 512), dtype=np.float32))
    frames = []
    for epoch in range(10):
        solver.add_source(256, 1.0)
        solver.advance(50)
        frames.append(solver.snapshot())
    print(np.stack(frames).sum(axis=(1, 2)))


if __name__ == "__main__":
    main()
