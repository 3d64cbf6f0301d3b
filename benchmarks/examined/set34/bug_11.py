"""Chunked total-variation denoising of a volume that does not fit on the device."""
import cupy as cp
import cupyx
import numpy as np


def gradient_step(f, ref, out, alpha):
    gx = cp.diff(f, axis=2, append=f[:, :, -1:])
    gy = cp.diff(f, axis=1, append=f[:, -1:, :])
    gz = cp.diff(f, axis=0, append=f[-1:])
    norm = cp.sqrt(gx * gx + gy * gy + gz * gz + 1e-8)
    div = gx / norm
    div[:, :, 1:] -= (gx / norm)[:, :, :-1]
    div += gy / norm
    div[:, 1:] -= (gy / norm)[:, :-1]
    div += gz / norm
    div[1:] -= (gz / norm)[:-1]
    cp.subtract(f, alpha * (f - ref) - 0.1 * div, out=out)


class Lane:
    """Device buffers of one half of the double buffering scheme."""

    def __init__(self, slices, ny, nx):
        self.pz = cp.zeros((slices, ny, nx), cp.float32)
        self.result = cp.zeros_like(self.pz)
        self.host_in = cupyx.zeros_pinned((slices, ny, nx), np.float32)
        self.host_out = cupyx.zeros_pinned((slices, ny, nx), np.float32)
        self.loaded = cp.cuda.Event(disable_timing=True)
        self.computed = cp.cuda.Event(disable_timing=True)
        self.stored = cp.cuda.Event(disable_timing=True)
        self.pending = None


class ChunkedDenoiser:
    def __init__(self, shape, slices_per_chunk=32, alpha=0.05):
        self.shape = shape
        self.slices = slices_per_chunk
        self.alpha = alpha
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.store = cp.cuda.Stream(non_blocking=True)
        self.lanes = [Lane(slices_per_chunk, *shape[1:]) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def _drain(self, lane, volume):
        if lane.pending is None:
            return
        lo, hi = lane.pending
        lane.stored.synchronize()
        volume[lo:hi] = lane.host_out[: hi - lo]
        lane.pending = None

    def _submit(self, lane, volume, lo, hi):
        n = hi - lo
        lane.host_in[:n] = volume[lo:hi]
        with self.compute:
            lane.pz.fill(0)
        with self.copy:
            lane.pz[:n].set(lane.host_in[:n], stream=self.copy)
            lane.loaded.record(self.copy)
        with self.compute:
            self.compute.wait_event(lane.loaded)
            ref = lane.pz.copy()
            for _ in range(8):
                gradient_step(lane.pz, ref, lane.result, self.alpha)
                lane.pz[...] = lane.result
            lane.computed.record(self.compute)
        self.store.wait_event(lane.computed)
        lane.result.get(stream=self.store, out=lane.host_out, blocking=False)
        lane.stored.record(self.store)
        lane.pending = (lo, hi)

    def run(self, volume):
        chunks = [(lo, min(lo + self.slices, self.shape[0])) for lo in range(0, self.shape[0], self.slices)]
        for i, (lo, hi) in enumerate(chunks):
            lane = self.lanes[i % 2]
            self._drain(lane, volume)
            self._submit(lane, volume, lo, hi)
        for lane in self.lanes:
            self._drain(lane, volume)
        return volume


if __name__ == "__main__":
    vol = np.random.rand(250, 512, 512).astype(np.float32)
    print(ChunkedDenoiser(vol.shape).run(vol).mean())
