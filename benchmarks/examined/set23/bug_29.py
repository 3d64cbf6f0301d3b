"""Job plan executor: host computed corrections interleaved with tiled kernels."""
import ctypes

import numpy as np
from cuda.bindings import driver
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class HostCompute:
    """Writes the address correction table of a tile."""

    def __init__(self, table):
        self.table = table

    def __call__(self, tile, base, stride):
        idx = np.arange(self.table.size, dtype=np.int64)
        self.table[:] = base + tile * stride + idx * 128


class JobPlan:
    def __init__(self, kernel, entries, tiles):
        self.kernel = kernel
        self.entries = entries
        self.tiles = tiles
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.nbytes = entries * 8
        self.pinned = check(cudart.cudaHostAlloc(self.nbytes, cudart.cudaHostAllocDefault))
        raw = (ctypes.c_int64 * entries).from_address(int(self.pinned))
        self.host_compute = HostCompute(np.ctypeslib.as_array(raw))
        self.correction = check(cudart.cudaMalloc(self.nbytes))

    def _launch(self, out, tile):
        values = [
            np.array([int(out)], dtype=np.uint64),
            np.array([int(self.correction)], dtype=np.uint64),
            np.array([self.entries], dtype=np.int32),
            np.array([tile], dtype=np.int32),
        ]
        args = np.array([v.ctypes.data for v in values], dtype=np.uint64)
        blocks = (self.entries + 127) // 128
        check(
            driver.cuLaunchKernel(
                self.kernel, blocks, 1, 1, 128, 1, 1, 0,
                driver.CUstream(int(self.stream)), args.ctypes.data, 0,
            )
        )

    def execute(self, out, base, stride):
        for tile in range(self.tiles):
            self.host_compute(tile, base, stride)
            check(
                cudart.cudaMemcpyAsync(
                    self.correction,
                    self.pinned,
                    self.nbytes,
                    cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
                    self.stream,
                )
            )
            self._launch(out, tile)
        check(cudart.cudaStreamSynchronize(self.stream))

    def close(self):
        check(cudart.cudaFree(self.correction))
        check(cudart.cudaFreeHost(self.pinned))
        check(cudart.cudaStreamDestroy(self.stream))
