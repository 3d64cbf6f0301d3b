"""Blockwise projection engine that keeps only a few exit-wave blocks on the device."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda import gpuarray
from pycuda.compiler import SourceModule

MOD = r"""
__global__ void fourier_update(float* ex, const float* mag, float alpha, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ex[i] += alpha * (mag[i] - fabsf(ex[i]));
}
"""


class GpuBlock:
    """One device block plus the host array whose data it currently holds."""

    def __init__(self, shape, dtype, syncback):
        self.gpu = gpuarray.empty(shape, dtype)
        self.key = None
        self.cpu = None
        self.syncback = syncback
        self.ev_done = None

    def record_done(self, stream):
        self.ev_done = cuda.Event()
        self.ev_done.record(stream)
        return self.ev_done

    def to_gpu(self, cpu, key, stream):
        if self.key != key:
            if self.ev_done is not None:
                stream.wait_for_event(self.ev_done)
            if self.syncback and self.cpu is not None:
                self.gpu.get_async(stream, self.cpu)
            self.key, self.cpu = key, cpu
            self.gpu.set_async(cpu, stream=stream)
            self.record_done(stream)
        return self.ev_done, self.gpu

    def from_gpu(self, stream):
        if self.cpu is None:
            return
        if self.ev_done is not None:
            stream.wait_for_event(self.ev_done)
        self.gpu.get_async(stream, self.cpu)
        self.record_done(stream)


class BlockPool:
    def __init__(self, shape, dtype, num, syncback=False):
        self.data = [GpuBlock(shape, dtype, syncback) for _ in range(num)]

    def to_gpu(self, cpu, key, stream):
        idx = next((i for i, b in enumerate(self.data) if b.key == key), 0)
        block = self.data.pop(idx)
        self.data.append(block)
        ev, gpu = block.to_gpu(cpu, key, stream)
        return ev, gpu, block

    def sync_to_cpu(self, stream):
        for block in self.data:
            block.from_gpu(stream)


def pagelocked_like(ary):
    out = cuda.pagelocked_empty(ary.shape, ary.dtype)
    out[...] = ary
    return out


class ProjectionEngine:
    def __init__(self, exits, mags, resident=3):
        self.ex_host = [pagelocked_like(e) for e in exits]
        self.mag_host = [pagelocked_like(m) for m in mags]
        shape, dtype = exits[0].shape, exits[0].dtype
        self.ex_pool = BlockPool(shape, dtype, resident, syncback=True)
        self.mag_pool = BlockPool(shape, dtype, resident)
        self.qu_htod = cuda.Stream()
        self.qu_compute = cuda.Stream()
        self.qu_dtoh = cuda.Stream()
        self.update = SourceModule(MOD).get_function("fourier_update")

    def iterate(self, num, alpha=0.5):
        for _ in range(num):
            for key, (ex_h, mag_h) in enumerate(zip(self.ex_host, self.mag_host)):
                ev_ex, ex, ex_block = self.ex_pool.to_gpu(ex_h, key, self.qu_htod)
                ev_mag, mag, mag_block = self.mag_pool.to_gpu(mag_h, key, self.qu_htod)
                self.qu_compute.wait_for_event(ev_ex)
                self.qu_compute.wait_for_event(ev_mag)
                n = ex.size
                self.update(ex, mag, np.float32(alpha), np.int32(n),
                            block=(256, 1, 1), grid=((n + 255) // 256, 1),
                            stream=self.qu_compute)
                ex_block.record_done(self.qu_compute)
                mag_block.record_done(self.qu_compute)

    def finalize(self):
        self.ex_pool.sync_to_cpu(self.qu_dtoh)
        self.qu_htod.synchronize()
        self.qu_dtoh.synchronize()
        return np.stack(self.ex_host)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    blocks = [rng.random((92, 256, 256), dtype=np.float32) for _ in range(8)]
    engine = ProjectionEngine(blocks, [np.sqrt(b) for b in blocks])
    engine.iterate(10)
    print(engine.finalize().mean())
