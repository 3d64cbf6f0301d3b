"""Sliding-window covariance with an RMM pool behind CuPy: one stream loads, one computes."""
import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


def setup_pool(nbytes):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=nbytes))
    cp.cuda.set_allocator(rmm_cupy_allocator)


class Loader:
    """Uploads blocks of rows; two pinned staging buffers are used in turn."""

    def __init__(self, source, rows):
        self.source = source
        self.rows = rows
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = [cupyx.empty_pinned((rows, source.shape[1]), dtype=np.float32) for _ in range(2)]
        self.uploaded = [cp.cuda.Event(disable_timing=True) for _ in range(2)]

    def __len__(self):
        return self.source.shape[0] // self.rows

    def load(self, k):
        slot = k % 2
        self.uploaded[slot].synchronize()
        self.staging[slot][...] = self.source[k * self.rows:(k + 1) * self.rows]
        with self.stream:
            block = cp.empty(self.staging[slot].shape, dtype=cp.float32)
            block.set(self.staging[slot], stream=self.stream)
            self.uploaded[slot].record(self.stream)
        return block, self.uploaded[slot]


class WindowCovariance:
    def __init__(self, dim):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.results = [cupyx.empty_pinned((dim, dim), dtype=np.float32) for _ in range(2)]
        self.ready = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.count = 0

    def submit(self, older, newer, uploaded):
        slot = self.count % 2
        self.count += 1
        self.stream.wait_event(uploaded)
        with self.stream:
            window = cp.concatenate([older, newer], axis=0)
            window -= window.mean(axis=0)
            cov = (window.T @ window) / np.float32(window.shape[0] - 1)
            cov.get(stream=self.stream, out=self.results[slot], blocking=False)
            self.ready[slot].record(self.stream)
        return slot

    def fetch(self, slot):
        self.ready[slot].synchronize()
        return self.results[slot].copy()


def run(source, rows):
    loader = Loader(source, rows)
    work = WindowCovariance(source.shape[1])
    out = []
    older, first_ready = loader.load(0)
    work.stream.wait_event(first_ready)
    pending = None
    for k in range(1, len(loader)):
        newer, uploaded = loader.load(k)
        slot = work.submit(older, newer, uploaded)
        loader.stream.wait_event(work.ready[slot])
        older = newer
        if pending is not None:
            out.append(work.fetch(pending))
        pending = slot
    out.append(work.fetch(pending))
    work.stream.synchronize()
    loader.stream.synchronize()
    return np.stack(out)


def main():
    setup_pool(1 << 30)
    gen = np.random.default_rng(0)
    data = gen.standard_normal((1 << 20, 64), dtype=np.float32)
    cov = run(data, rows=1 << 16)
    print(cov.shape, float(np.trace(cov[-1])))


if __name__ == "__main__":
    main()
