"""Heat diffusion with live probes on unified memory (cuda.core + cuda.bindings)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__
void diffuse(float* dst, const float* src, float k, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x;
    if (x == 0 || y == 0 || x == w - 1 || y == h - 1) { dst[i] = src[i]; return; }
    dst[i] = src[i] + k * (src[i-1] + src[i+1] + src[i-w] + src[i+w] - 4.f * src[i]);
}

extern "C" __global__
void gather(float* out, const float* field, const int* where, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = field[where[i]];
}
"""


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(err)
    return rest[0] if len(rest) == 1 else rest


class Managed:
    def __init__(self, shape, dtype):
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        self.ptr = check(cudart.cudaMallocManaged(count * dtype.itemsize, cudart.cudaMemAttachGlobal))
        raw = (ctypes.c_byte * (count * dtype.itemsize)).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)

    def release(self):
        check(cudart.cudaFree(self.ptr))


class Plate:
    def __init__(self, w, h, probes):
        self.dev = Device()
        self.dev.set_current()
        self.w, self.h = w, h
        self.sim = self.dev.create_stream()
        self.view = self.dev.create_stream()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.k_diffuse = mod.get_kernel("diffuse")
        self.k_gather = mod.get_kernel("gather")
        self.cur = Managed((h, w), np.float32)
        self.nxt = Managed((h, w), np.float32)
        self.where = Managed((len(probes),), np.int32)
        self.samples = Managed((len(probes),), np.float32)
        self.cur.array[:] = 20.0
        self.nxt.array[:] = 20.0
        self.where.array[:] = [y * w + x for x, y in probes]
        self.n = len(probes)

    def heat(self, x0, x1, y0, y1, temp):
        self.cur.array[y0:y1, x0:x1] = temp

    def advance(self, steps):
        cfg = LaunchConfig(grid=((self.w + 15) // 16, (self.h + 15) // 16), block=(16, 16))
        for _ in range(steps):
            launch(self.sim, cfg, self.k_diffuse, self.nxt.ptr, self.cur.ptr,
                   np.float32(0.2), np.int32(self.w), np.int32(self.h))
            self.cur, self.nxt = self.nxt, self.cur

    def probe(self):
        self.view.wait(self.sim.record())
        launch(self.view, LaunchConfig(grid=1, block=128), self.k_gather,
               self.samples.ptr, self.cur.ptr, self.where.ptr, np.int32(self.n))

    def values(self):
        self.sim.sync()
        return self.samples.array.copy()

    def close(self):
        self.dev.sync()
        for m in (self.cur, self.nxt, self.where, self.samples):
            m.release()


def main():
    plate = Plate(1024, 768, [(100, 100), (512, 384), (900, 700)])
    plate.heat(480, 560, 350, 420, 900.0)
    rows = []
    for _ in range(25):
        plate.advance(40)
        plate.probe()
        rows.append(plate.values())
        plate.view.sync()
    plate.close()
    for r in rows:
        print(" ".join(f"{v:8.3f}" for v in r))


if __name__ == "__main__":
    main()
