"""An append-only device log built from host pieces, with stream-ordered scratch allocations."""
from typing import List

import numpy as np
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice


def check(result):
    status, *values = result
    if status != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(status)[1])
    return values[0] if values else None


class DeviceLog:
    def __init__(self, capacity: int, record_bytes: int):
        self.capacity = capacity
        self.record_bytes = record_bytes
        self.used = 0
        self.upload = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.work = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.filled = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.data = check(cudart.cudaMalloc(capacity * record_bytes))
        check(cudart.cudaMemsetAsync(self.data, 0, capacity * record_bytes, self.work))

    def append(self, records: np.ndarray, stride: int) -> None:
        """records: uint8 [n, stride]; the first record_bytes of each row are stored."""
        rows = records.shape[0]
        if self.used + rows > self.capacity:
            raise MemoryError("the log is full")
        nbytes = rows * stride
        piece = check(cudart.cudaMallocAsync(nbytes, self.upload))
        check(cudart.cudaMemcpyAsync(piece, records.ctypes.data, nbytes, H2D, self.upload))
        check(cudart.cudaEventRecord(self.filled, self.upload))
        check(cudart.cudaStreamWaitEvent(self.work, self.filled, 0))
        target = int(self.data) + self.used * self.record_bytes
        check(
            cudart.cudaMemcpy2DAsync(
                target, self.record_bytes, piece, stride, self.record_bytes, rows, D2D, self.work
            )
        )
        check(cudart.cudaFreeAsync(piece, self.work))
        self.used += rows
        check(cudart.cudaEventSynchronize(self.filled))

    def read(self, first: int, count: int) -> np.ndarray:
        if first < 0 or first + count > self.used:
            raise IndexError((first, count))
        out = np.empty((count, self.record_bytes), dtype=np.uint8)
        source = int(self.data) + first * self.record_bytes
        check(cudart.cudaMemcpyAsync(out.ctypes.data, source, out.nbytes, D2H, self.work))
        check(cudart.cudaStreamSynchronize(self.work))
        return out

    def close(self) -> None:
        check(cudart.cudaStreamSynchronize(self.work))
        check(cudart.cudaFree(self.data))
        check(cudart.cudaEventDestroy(self.filled))
        check(cudart.cudaStreamDestroy(self.upload))
        check(cudart.cudaStreamDestroy(self.work))


def checksums(log: DeviceLog, piece: int) -> List[int]:
    sums = []
    for first in range(0, log.used, piece):
        block = log.read(first, min(piece, log.used - first))
        sums.append(int(block.astype(np.uint64).sum()))
    return sums


if __name__ == "__main__":
    rng = np.random.default_rng(2)
    journal = DeviceLog(capacity=1 << 20, record_bytes=48)
    buffer = np.empty((1 << 15, 64), dtype=np.uint8)
    for _ in range(32):
        buffer[...] = rng.integers(0, 256, buffer.shape, dtype=np.uint8)
        journal.append(buffer, stride=64)
    print(checksums(journal, 1 << 16))
    journal.close()
