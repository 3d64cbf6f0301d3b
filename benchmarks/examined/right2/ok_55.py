"""Scratch buffers from RMM used by CuPy kernels."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

score = cp.ElementwiseKernel(
    "float32 x, float32 mean, float32 inv", "float32 z", "z = (x - mean) * inv", "score"
)


class Workspace:
    def __init__(self):
        self.cupy_stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(obj=self.cupy_stream)

    def scratch(self, shape, dtype=np.float32):
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        buf = rmm.DeviceBuffer(size=nbytes, stream=self.rmm_stream)
        mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
        return cp.ndarray(shape, dtype=dtype, memptr=cp.cuda.MemoryPointer(mem, 0))

    def __enter__(self):
        self.cupy_stream.__enter__()
        return self

    def __exit__(self, *exc):
        return self.cupy_stream.__exit__(*exc)


class Result:
    def __init__(self, workspace, array):
        self._workspace = workspace
        self._array = array

    @property
    def values(self):
        host = np.empty(self._array.shape, self._array.dtype)
        self._array.get(stream=self._workspace.cupy_stream, out=host, blocking=False)
        self._workspace.cupy_stream.synchronize()
        return host


def standardize(workspace, batch):
    with workspace:
        x = workspace.scratch(batch.shape)
        x.set(batch, stream=workspace.cupy_stream)
        z = workspace.scratch(batch.shape)
        mean = x.mean(axis=0, keepdims=True)
        inv = cp.reciprocal(x.std(axis=0, keepdims=True) + 1e-6)
        score(x, mean, inv, z)
    return Result(workspace, z)


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
    workspace = Workspace()
    rng = np.random.default_rng(11)
    pending = []
    for _ in range(8):
        batch = rng.standard_normal((4096, 64)).astype(np.float32)
        pending.append(standardize(workspace, batch))
    return [r.values.std() for r in pending]


if __name__ == "__main__":
    print(main())
