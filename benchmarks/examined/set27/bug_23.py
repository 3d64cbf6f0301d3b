"""Small inference session with custom operators, after the layout of the deepmd ops."""
import contextlib

import cupy as cp
import numpy as np

ENV_MAT = cp.RawKernel(r"""
extern "C" __global__
void prod_env_mat(const float* coord, const int* nlist, float* descrpt,
                  int natoms, int nnei, float rcut) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= natoms * nnei) return;
    int i = t / nnei, j = nlist[t];
    float dx = coord[3 * j] - coord[3 * i];
    float dy = coord[3 * j + 1] - coord[3 * i + 1];
    float dz = coord[3 * j + 2] - coord[3 * i + 2];
    float r = sqrtf(dx * dx + dy * dy + dz * dz) + 1e-6f;
    float s = r < rcut ? 1.0f / r : 0.0f;
    descrpt[4 * t] = s;
    descrpt[4 * t + 1] = s * dx / r;
    descrpt[4 * t + 2] = s * dy / r;
    descrpt[4 * t + 3] = s * dz / r;
}
""", "prod_env_mat")


class OpRegistry:
    """Name to callable; operators receive and return device arrays."""

    _ops = {}

    @classmethod
    def register(cls, name):
        def deco(fn):
            cls._ops[name] = fn
            return fn
        return deco

    @classmethod
    def call(cls, name, *args, **kwargs):
        return cls._ops[name](*args, **kwargs)


@contextlib.contextmanager
def device_launch():
    with cp.cuda.Stream.null as stream:
        yield stream


@OpRegistry.register("ProdEnvMatA")
def prod_env_mat_a(coord, nlist, rcut):
    natoms, nnei = nlist.shape
    descrpt = cp.empty((natoms, nnei * 4), dtype=cp.float32)
    threads = natoms * nnei
    with device_launch():
        ENV_MAT(((threads + 127) // 128,), (128,),
                (coord, nlist, descrpt, np.int32(natoms), np.int32(nnei), np.float32(rcut)))
    return descrpt


class DeepPotSession:
    def __init__(self, nnei, width, box, rcut, seed=0):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.box = np.float32(box)
        self.rcut = rcut
        rng = np.random.default_rng(seed)
        with self.stream:
            self.w1 = cp.asarray(rng.standard_normal((nnei * 4, width), dtype=np.float32))
            self.w2 = cp.asarray(rng.standard_normal((width, 1), dtype=np.float32))
        self.stream.synchronize()

    def run(self, coord_host, nlist_host):
        with self.stream:
            coord = cp.asarray(coord_host)
            nlist = cp.asarray(nlist_host)
            shifted = coord - self.box * cp.floor(coord / self.box)
            descrpt = OpRegistry.call("ProdEnvMatA", shifted, nlist, self.rcut)
            hidden = cp.tanh(descrpt @ self.w1)
            energy = (hidden @ self.w2).sum()
            result = energy.get(stream=self.stream)
        self.stream.synchronize()
        return float(result)


if __name__ == "__main__":
    gen = np.random.default_rng(3)
    natoms, nnei = 12_000, 96
    session = DeepPotSession(nnei, 240, box=40.0, rcut=6.0)
    positions = gen.random((natoms, 3), dtype=np.float32) * 60.0
    neighbours = gen.integers(0, natoms, (natoms, nnei), dtype=np.int32)
    for step in range(100):
        positions += 0.01 * gen.standard_normal(positions.shape, dtype=np.float32)
        e = session.run(positions, neighbours)
        if step % 10 == 0:
            print(step, e)
