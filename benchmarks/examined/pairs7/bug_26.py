"""N-body forces: positions live in unified memory and get a host-side kick each frame."""
import ctypes

import cupy as cp
import numpy as np

N = 8192

accelerate = cp.RawKernel(r"""
extern "C" __global__ void accelerate(const float4* pos, float4* acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = pos[i], a = make_float4(0, 0, 0, 0);
    for (int j = 0; j < n; ++j) {
        float dx = pos[j].x - p.x, dy = pos[j].y - p.y, dz = pos[j].z - p.z;
        float w = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
        w = pos[j].w * w * w * w;
        a.x += w * dx; a.y += w * dy; a.z += w * dz;
    }
    acc[i] = a;
}
""", "accelerate")


def managed(shape):
    size = int(np.prod(shape)) * 4
    mem = cp.cuda.malloc_managed(size)
    device = cp.ndarray(shape, cp.float32, memptr=mem)
    raw = (ctypes.c_float * (size // 4)).from_address(mem.ptr)
    return device, np.frombuffer(raw, np.float32).reshape(shape)


class Bodies:
    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pos, self.host_pos = managed((N, 4))
        self.acc, self.host_acc = managed((N, 4))
        self.vel = np.zeros((N, 4), np.float32)
        self.host_pos[...] = rng.standard_normal((N, 4))
        self.host_pos[:, 3] = 1.0 / N

    def forces(self):
        with self.stream:
            accelerate((N // 128,), (128,), (self.pos, self.acc, np.int32(N)))

    def step(self, dt):
        self.forces()
        self.stream.synchronize()
        self.vel += dt * self.host_acc
        self.host_pos[:, :3] += dt * self.vel[:, :3]

    def shake(self, rng, amplitude):
        self.forces()
        self.host_pos[:, :3] += amplitude * rng.standard_normal((N, 3))
        self.stream.synchronize()
        return float(np.linalg.norm(self.host_acc[:, :3], axis=1).max())


def main():
    rng = np.random.default_rng(1)
    bodies = Bodies()
    for frame in range(100):
        bodies.step(1e-3)
        if frame % 10 == 0:
            print(frame, bodies.shake(rng, 1e-3))


if __name__ == "__main__":
    main()
