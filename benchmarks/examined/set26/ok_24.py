"""Spiking network step loop: push inputs, simulate, pull spikes."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void update_neurons(float *v, const float *i_ext, int *spk, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = 0.95f * v[i] + i_ext[i];
        spk[i] = v[i] > 1.0f;
        if (spk[i]) v[i] = 0.0f;
    }
}
""")
update_neurons = mod.get_function("update_neurons")


class Array:
    """A host/device pair in the manner of a generated-code array."""

    def __init__(self, n, dtype):
        self.host = drv.pagelocked_zeros(n, dtype)
        self.device = drv.mem_alloc(self.host.nbytes)

    def push_to_device(self):
        drv.memcpy_htod_async(self.device, self.host)

    def pull_from_device(self):
        drv.memcpy_dtoh(self.host, self.device)


class NeuronGroup:
    def __init__(self, n):
        self.n = n
        self.v = Array(n, np.float32)
        self.i_ext = Array(n, np.float32)
        self.spikes = Array(n, np.int32)
        self.v.push_to_device()

    def step(self, current):
        self.i_ext.host[:] = current
        self.i_ext.push_to_device()
        block = 256
        update_neurons(self.v.device, self.i_ext.device, self.spikes.device,
                       np.int32(self.n), block=(block, 1, 1),
                       grid=((self.n + block - 1) // block, 1))
        self.spikes.pull_from_device()
        return np.flatnonzero(self.spikes.host)


def main():
    rng = np.random.default_rng(1)
    pop = NeuronGroup(1 << 18)
    counts = []
    for t in range(200):
        fired = pop.step(rng.random(pop.n, dtype=np.float32) * 0.2)
        counts.append(fired.size)
    print(sum(counts))


if __name__ == "__main__":
    main()
