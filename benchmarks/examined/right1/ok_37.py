"""Stream-ordered scratch memory passed from a producing to a consuming stream."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


def host_array(nbytes):
    ptr = check(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
    return ptr, np.frombuffer(raw, dtype=np.uint8)


class Relay:
    """Stages host rows through scratch buffers into one device table."""

    def __init__(self, rows, row_bytes):
        self.row_bytes = row_bytes
        self.producer = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.consumer = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.table = check(cudart.cudaMallocAsync(rows * row_bytes, self.consumer))
        check(cudart.cudaMemsetAsync(self.table, 0, rows * row_bytes, self.consumer))

    def push(self, row, host_ptr):
        n = self.row_bytes
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2d = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        scratch = check(cudart.cudaMallocAsync(n, self.producer))
        check(cudart.cudaMemcpyAsync(scratch, host_ptr, n, h2d, self.producer))
        check(cudart.cudaEventRecord(self.event, self.producer))
        check(cudart.cudaStreamWaitEvent(self.consumer, self.event, 0))
        check(cudart.cudaMemcpyAsync(int(self.table) + row * n, scratch, n, d2d, self.consumer))
        check(cudart.cudaFreeAsync(scratch, self.consumer))

    def download(self, host_ptr, nbytes):
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpyAsync(host_ptr, self.table, nbytes, d2h, self.consumer))
        check(cudart.cudaStreamSynchronize(self.consumer))

    def close(self):
        check(cudart.cudaFreeAsync(self.table, self.consumer))
        for stream in (self.producer, self.consumer):
            check(cudart.cudaStreamSynchronize(stream))
            check(cudart.cudaStreamDestroy(stream))
        check(cudart.cudaEventDestroy(self.event))


def main(rows=64, row_bytes=1 << 20):
    check(cudart.cudaSetDevice(0))
    src_ptr, src = host_array(rows * row_bytes)
    dst_ptr, dst = host_array(rows * row_bytes)
    src[:] = np.random.default_rng(0).integers(0, 256, src.size, dtype=np.uint8)
    relay = Relay(rows, row_bytes)
    for row in range(rows):
        relay.push(row, int(src_ptr) + row * row_bytes)
    relay.download(dst_ptr, dst.size)
    assert np.array_equal(src, dst)
    relay.close()
    check(cudart.cudaFreeHost(src_ptr))
    check(cudart.cudaFreeHost(dst_ptr))


if __name__ == "__main__":
    main()
