import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule(
    """
__global__ void deposit(const float *x, const float *q, float *rho, int n, float inv_dx, int cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = x[i] * inv_dx;
    int c = (int)floorf(s);
    float w = s - c;
    atomicAdd(&rho[c % cells], q[i] * (1.f - w));
    atomicAdd(&rho[(c + 1) % cells], q[i] * w);
}
"""
)


class ChargeDeposition:
    def __init__(self, particles, cells, length):
        self.n, self.cells = particles, cells
        self.inv_dx = np.float32(cells / length)
        self.kernel = MODULE.get_function("deposit")
        self.stream = drv.Stream()
        self.x = drv.mem_alloc(4 * particles)
        self.q = drv.mem_alloc(4 * particles)
        self.rho = drv.mem_alloc(4 * cells)

    def __call__(self, x, q):
        drv.memcpy_htod(self.x, x.astype(np.float32))
        drv.memcpy_htod(self.q, q.astype(np.float32))
        drv.memset_d32(self.rho, 0, self.cells)
        self.kernel(
            self.x,
            self.q,
            self.rho,
            np.int32(self.n),
            self.inv_dx,
            np.int32(self.cells),
            block=(256, 1, 1),
            grid=((self.n + 255) // 256, 1),
            stream=self.stream,
        )
        out = np.empty(self.cells, np.float32)
        drv.memcpy_dtoh(out, self.rho)
        return out


def push(x, v, field, dt, length):
    cells = field.size
    index = (x / length * cells).astype(int) % cells
    v = v + field[index] * dt
    return (x + v * dt) % length, v


def simulate(steps=100, particles=1 << 18, cells=1024, length=1.0, dt=1e-3):
    rng = np.random.default_rng(1)
    x, v = rng.random(particles) * length, rng.standard_normal(particles) * 0.01
    q = np.full(particles, 1.0 / particles)
    deposit = ChargeDeposition(particles, cells, length)
    energy = []
    for _ in range(steps):
        rho = deposit(x, q)
        field = np.cumsum(rho - rho.mean())
        x, v = push(x, v, field, dt, length)
        energy.append(float((field**2).sum()))
    return energy
