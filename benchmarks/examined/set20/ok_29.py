"""Team-scratch management of an execution-space instance."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart

TEAM = cp.RawKernel(r"""
extern "C" __global__ void team_sum(const double* x, int rows, int cols, double* scratch, double* out) {
    int team = blockIdx.x;
    double* s = scratch + (size_t)team * cols;
    for (int r = team; r < rows; r += gridDim.x) {
        for (int c = threadIdx.x; c < cols; c += blockDim.x) s[c] = x[(size_t)r * cols + c] * 0.5;
        __syncthreads();
        if (threadIdx.x == 0) {
            double t = 0.0;
            for (int c = 0; c < cols; ++c) t += s[c];
            out[r] = t;
        }
        __syncthreads();
    }
}
""", "team_sum")


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


class CudaInstance:
    def __init__(self):
        self.handle = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.stream = cp.cuda.ExternalStream(int(self.handle))
        self.scratch_ptr = 0
        self.scratch_size = 0
        self.lock = threading.Lock()

    def fence(self):
        check(cudart.cudaStreamSynchronize(self.handle))

    def resize_team_scratch(self, nbytes):
        if nbytes > self.scratch_size:
            self.fence()
            if self.scratch_ptr:
                check(cudart.cudaFree(self.scratch_ptr))
            self.scratch_ptr = check(cudart.cudaMalloc(nbytes))
            self.scratch_size = nbytes
        return self.scratch_ptr

    def team_parallel_for(self, x, out, teams=64):
        rows, cols = x.shape
        with self.lock:
            scratch = self.resize_team_scratch(teams * cols * 8)
            with self.stream:
                TEAM((teams,), (128,), (x, np.int32(rows), np.int32(cols), np.uint64(scratch), out))

    def finalize(self):
        self.fence()
        check(cudart.cudaFree(self.scratch_ptr))
        check(cudart.cudaStreamDestroy(self.handle))


def main(njobs=24):
    mats = [cp.ones((256, 64 * (1 + k % 6))) * k for k in range(njobs)]
    outs = [cp.empty(256) for _ in mats]
    cp.cuda.Stream.null.synchronize()
    instance = CudaInstance()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(instance.team_parallel_for, mats, outs))
    instance.fence()
    sums = [float(o.sum()) for o in outs]
    instance.finalize()
    return sums


if __name__ == "__main__":
    print(main())
