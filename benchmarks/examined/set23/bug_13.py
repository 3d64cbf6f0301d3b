"""Track seeding chain: device algorithms and a host-side comparison of the results."""
import numpy as np
import cupy as cp
from cupy.cuda import runtime

_doublets = cp.RawKernel(r"""
extern "C" __global__
void find_seeds(const float* r, const float* z, int n, int width, int* seeds, int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 2) return;
    float s1 = (z[i + 1] - z[i]) / (r[i + 1] - r[i] + 1e-6f);
    float s2 = (z[i + 2] - z[i + 1]) / (r[i + 2] - r[i + 1] + 1e-6f);
    if (fabsf(s1 - s2) < 0.05f) {
        int slot = atomicAdd(count, 1);
        if (slot < width) { seeds[3 * slot] = i; seeds[3 * slot + 1] = i + 1; seeds[3 * slot + 2] = i + 2; }
    }
}
""", "find_seeds")

_params = cp.RawKernel(r"""
extern "C" __global__
void estimate(const float* r, const float* z, const int* seeds, const int* count, int width, float* out) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= width || s >= *count) return;
    int a = seeds[3 * s], c = seeds[3 * s + 2];
    out[2 * s] = (z[c] - z[a]) / (r[c] - r[a] + 1e-6f);
    out[2 * s + 1] = z[a] - out[2 * s] * r[a];
}
""", "estimate")


class AsyncCopy:
    """Copies between device buffers and pinned host arrays on one stream."""

    def __init__(self, stream):
        self.stream = stream

    def host_buffer(self, shape, dtype):
        count = int(np.prod(shape))
        mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
        return np.frombuffer(mem, dtype=dtype, count=count).reshape(shape)

    def to_host(self, device, host):
        runtime.memcpyAsync(
            host.ctypes.data, device.data.ptr, host.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr
        )


class SeedingAlgorithm:
    def __init__(self, stream, max_seeds):
        self.stream = stream
        self.max_seeds = max_seeds

    def __call__(self, r, z):
        with self.stream:
            seeds = cp.zeros((self.max_seeds, 3), dtype=cp.int32)
            count = cp.zeros(1, dtype=cp.int32)
            grid = ((r.size + 255) // 256,)
            _doublets(grid, (256,), (r, z, np.int32(r.size), np.int32(self.max_seeds), seeds, count))
        return seeds, count


class TrackParamsEstimation:
    def __init__(self, stream):
        self.stream = stream

    def __call__(self, r, z, seeds, count):
        with self.stream:
            out = cp.zeros((len(seeds), 2), dtype=cp.float32)
            grid = ((len(seeds) + 255) // 256,)
            _params(grid, (256,), (r, z, seeds, count, np.int32(len(seeds)), out))
        return out


def seq_run(events, max_seeds=1 << 16):
    stream = cp.cuda.Stream(non_blocking=True)
    copy = AsyncCopy(stream)
    seeding = SeedingAlgorithm(stream, max_seeds)
    estimation = TrackParamsEstimation(stream)
    seeds_host = copy.host_buffer((max_seeds, 3), np.int32)
    count_host = copy.host_buffer((1,), np.int32)
    params_host = copy.host_buffer((max_seeds, 2), np.float32)
    n_seeds, agreement = 0, []
    for r_cpu, z_cpu in events:
        with stream:
            r = cp.asarray(r_cpu)
            z = cp.asarray(z_cpu)
        seeds_buffer, count_buffer = seeding(r, z)
        params_buffer = estimation(r, z, seeds_buffer, count_buffer)
        copy.to_host(seeds_buffer, seeds_host)
        copy.to_host(count_buffer, count_host)
        copy.to_host(params_buffer, params_host)

        found = min(int(count_host[0]), max_seeds)
        n_seeds += found
        first, last = seeds_host[:found, 0], seeds_host[:found, 2]
        slope = (z_cpu[last] - z_cpu[first]) / (r_cpu[last] - r_cpu[first] + 1e-6)
        agreement.append(float(np.mean(np.isclose(slope, params_host[:found, 0], rtol=1e-3))))
    stream.synchronize()
    print(n_seeds, np.mean(agreement))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    seq_run([
        (np.sort(rng.random(1 << 18)).astype(np.float32) * 1000, rng.random(1 << 18).astype(np.float32) * 100)
        for _ in range(10)
    ])
