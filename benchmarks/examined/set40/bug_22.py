"""Slab-wise statistics over a volume that lives on the GPU."""
import cupy as cp
import numpy as np


clip_gain = cp.ElementwiseKernel(
    "float32 v, float32 lo, float32 hi, float32 gain",
    "float32 out",
    "float c = v < lo ? lo : (v > hi ? hi : v); out = (c - lo) * gain;",
    "clip_gain",
)


class SlabStats:
    """Normalises slabs on one stream and accumulates moments on another."""

    def __init__(self, volume, lo, hi):
        self.volume = volume
        self.lo = np.float32(lo)
        self.hi = np.float32(hi)
        self.gain = np.float32(1.0 / (hi - lo))
        self.prep = cp.cuda.Stream(non_blocking=True)
        self.reduce = cp.cuda.Stream(non_blocking=True)
        ny, nx = volume.shape[1:]
        with self.reduce:
            self.mean = cp.zeros((ny, nx), dtype=cp.float64)
            self.sq = cp.zeros((ny, nx), dtype=cp.float64)
        self.slices = 0

    def _normalise(self, z0, z1):
        with self.prep:
            slab = clip_gain(self.volume[z0:z1], self.lo, self.hi, self.gain)
            ready = self.prep.record()
        return slab, ready

    def _accumulate(self, slab, ready):
        self.reduce.wait_event(ready)
        with self.reduce:
            self.mean += slab.sum(axis=0, dtype=cp.float64)
            self.sq += (slab * slab).sum(axis=0, dtype=cp.float64)
        self.slices += slab.shape[0]

    def add(self, z0, z1):
        slab, ready = self._normalise(z0, z1)
        self._accumulate(slab, ready)

    def result(self):
        with self.reduce:
            mean = self.mean / self.slices
            var = self.sq / self.slices - mean * mean
        self.reduce.synchronize()
        return cp.asnumpy(mean), cp.asnumpy(var)


def make_volume(nz, ny, nx, seed=1):
    cp.random.seed(seed)
    vol = cp.random.standard_normal((nz, ny, nx), dtype=cp.float32)
    vol *= 120.0
    vol += 900.0
    cp.cuda.Stream.null.synchronize()
    return vol


def slabs(nz, depth):
    z = 0
    while z + depth <= nz:
        yield z, z + depth
        z += depth


def main(nz=512, ny=768, nx=768, depth=16):
    volume = make_volume(nz, ny, nx)
    stats = SlabStats(volume, lo=500.0, hi=1300.0)
    for z0, z1 in slabs(nz, depth):
        stats.add(z0, z1)
    mean, var = stats.result()
    print(f"mean {mean.mean():.6f}  var {var.mean():.6f}  over {stats.slices} slices")


if __name__ == "__main__":
    main()
