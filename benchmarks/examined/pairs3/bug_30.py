"""Replay of a captured telemetry reduction; one launch per sensor packet."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as rt

reduce_packet = cp.RawKernel(r"""
extern "C" __global__ void reduce_packet(const float *x, double *acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(acc + (i & 63), (double)x[i]);
}""", "reduce_packet")


def must(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return values[0] if values else None


class PacketReducer:
    def __init__(self, n):
        self.n = n
        ptr = must(rt.cudaMallocHost(4 * n))
        self.packet = np.frombuffer((ctypes.c_float * n).from_address(int(ptr)), dtype=np.float32)
        self.d_packet = cp.empty(n, cp.float32)
        self.acc = cp.zeros(64, cp.float64)
        cp.cuda.Device().synchronize()
        self.stream = cp.cuda.Stream(non_blocking=True)
        reduce_packet.compile()
        with self.stream:
            self.stream.begin_capture()
            must(rt.cudaMemcpyAsync(self.d_packet.data.ptr, self.packet.ctypes.data, 4 * n,
                                    rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream.ptr))
            reduce_packet(((n + 255) // 256,), (256,), (self.d_packet, self.acc, np.int32(n)))
            self.graph = self.stream.end_capture()

    def consume(self, packet):
        self.packet[:] = packet
        self.graph.launch(self.stream)

    def totals(self):
        self.stream.synchronize()
        return cp.asnumpy(self.acc)


def packets(n, count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.random(n, dtype=np.float32)


if __name__ == "__main__":
    reducer = PacketReducer(1 << 22)
    for p in packets(1 << 22, 500):
        reducer.consume(p)
    print(reducer.totals())
