import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.elementwise import ElementwiseKernel

kick = ElementwiseKernel("float *p, const float *f, float dt", "p[i] += dt * f[i]", "kick")
drift = ElementwiseKernel("float *x, const float *p, float dt", "x[i] += dt * p[i]", "drift")
force = ElementwiseKernel("float *f, const float *x, float k", "f[i] = -k * x[i]", "force")


class Oscillators:
    """Independent axes advance on their own streams, observables on the default one."""

    def __init__(self, n, k):
        self.k = np.float32(k)
        self.axes = []
        for _ in range(3):
            x = gpuarray.to_gpu(np.random.rand(n).astype(np.float32))
            p = gpuarray.zeros(n, np.float32)
            f = gpuarray.zeros(n, np.float32)
            self.axes.append((x, p, f, drv.Stream()))

    def advance(self, steps, dt):
        dt = np.float32(dt)
        for x, p, f, stream in self.axes:
            for _ in range(steps):
                force(f, x, self.k, stream=stream)
                kick(p, f, dt, stream=stream)
                drift(x, p, dt, stream=stream)

    def energy(self):
        kinetic = sum(gpuarray.dot(p, p) for _, p, _, _ in self.axes)
        potential = sum(gpuarray.dot(x, x) for x, _, _, _ in self.axes)
        return 0.5 * float(kinetic.get()) + 0.5 * float(self.k) * float(potential.get())


if __name__ == "__main__":
    system = Oscillators(1 << 18, 2.0)
    e0 = system.energy()
    for _ in range(10):
        system.advance(20, 1e-3)
        print(abs(system.energy() - e0) / e0)
