"""Non-bonded forces on the GPU for the local and the non-local atom ranges."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

LOCAL, NONLOCAL = 0, 1

KERNEL = r"""
__global__ void nbnxn_kernel(const float4 *xq, int n, int start, int count, float rc2,
                             float *f, float *energy)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    i += start;
    float4 a = xq[i];
    float fx = 0.f, fy = 0.f, fz = 0.f, e = 0.f;
    for (int j = 0; j < n; ++j) {
        float4 b = xq[j];
        float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
        float r2 = dx * dx + dy * dy + dz * dz;
        if (j == i || r2 > rc2) continue;
        float inv = rsqrtf(r2 + 1e-6f);
        float s = a.w * b.w * inv * inv * inv;
        fx += s * dx; fy += s * dy; fz += s * dz;
        e += 0.5f * a.w * b.w * inv;
    }
    f[3 * i] = fx; f[3 * i + 1] = fy; f[3 * i + 2] = fz;
    atomicAdd(energy, e);
}
"""


class NonbondedGpu:
    def __init__(self, n_local, n_nonlocal, cutoff=1.0):
        self.n = n_local + n_nonlocal
        self.ranges = [(0, n_local), (n_local, n_nonlocal)]
        self.rc2 = np.float32(cutoff * cutoff)
        self.kernel = SourceModule(KERNEL).get_function("nbnxn_kernel")
        self.streams = [drv.Stream(), drv.Stream()]
        self.coords_ready = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.nonbonded_done = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(2)]
        self.h_xq = drv.pagelocked_zeros((self.n, 4), np.float32)
        self.h_f = drv.pagelocked_zeros((self.n, 3), np.float32)
        self.h_e = [drv.pagelocked_zeros(1, np.float32) for _ in range(2)]
        self.d_xq = drv.mem_alloc(self.h_xq.nbytes)
        self.d_f = drv.mem_alloc(self.h_f.nbytes)
        self.d_e = [drv.mem_alloc(4) for _ in range(2)]

    def copy_xq_to_gpu(self, x, q):
        self.h_xq[:, :3] = x
        self.h_xq[:, 3] = q
        drv.memcpy_htod_async(self.d_xq, self.h_xq, self.streams[LOCAL])
        self.coords_ready.record(self.streams[LOCAL])
        self.streams[NONLOCAL].wait_for_event(self.coords_ready)

    def launch_kernel(self, iloc):
        stream = self.streams[iloc]
        start, count = self.ranges[iloc]
        drv.memset_d32_async(self.d_e[iloc], 0, 1, stream)
        self.kernel(
            self.d_xq, np.int32(self.n), np.int32(start), np.int32(count), self.rc2,
            self.d_f, self.d_e[iloc],
            grid=((count + 127) // 128, 1), block=(128, 1, 1), stream=stream,
        )
        self.nonbonded_done[iloc].record(stream)

    def launch_cpyback(self, iloc):
        stream = self.streams[iloc]
        start, count = self.ranges[iloc]
        source = int(self.d_f) + 12 * start
        drv.memcpy_dtoh_async(self.h_f[start : start + count], source, stream)
        drv.memcpy_dtoh_async(self.h_e[iloc], self.d_e[iloc], stream)

    def wait_gpu(self, iloc):
        self.nonbonded_done[iloc].synchronize()
        start, count = self.ranges[iloc]
        return self.h_f[start : start + count].copy(), float(self.h_e[iloc][0])


def main(steps=500, dt=1.0e-4):
    rng = np.random.default_rng(17)
    gpu = NonbondedGpu(12000, 4000)
    x = (10.0 * rng.random((gpu.n, 3))).astype(np.float32)
    q = rng.choice(np.array([-1.0, 1.0], np.float32), gpu.n)
    v = np.zeros_like(x)
    for step in range(steps):
        gpu.copy_xq_to_gpu(x, q)
        for iloc in (LOCAL, NONLOCAL):
            gpu.launch_kernel(iloc)
        for iloc in (NONLOCAL, LOCAL):
            gpu.launch_cpyback(iloc)
        f_nonlocal, e_nonlocal = gpu.wait_gpu(NONLOCAL)
        f_local, e_local = gpu.wait_gpu(LOCAL)
        v += dt * np.concatenate([f_local, f_nonlocal])
        x += dt * v
        if step % 100 == 0:
            print(step, e_local + e_nonlocal)


if __name__ == "__main__":
    main()
