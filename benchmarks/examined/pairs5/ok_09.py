"""Tomographic reconstruction: ramp filter and backprojection overlapped over projection chunks."""
import numpy as np
import cupy as cp
import cupyx


class Slot:
    def __init__(self, chunk, det):
        self.pinned = cupyx.empty_pinned((chunk, det), dtype=np.float32)
        self.raw = cp.empty((chunk, det), cp.float32)
        self.filtered = cp.empty((chunk, det), cp.float32)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class FBP:
    def __init__(self, det, chunk, slots=3):
        self.det, self.chunk = det, chunk
        self.filt = cp.cuda.Stream(non_blocking=True)
        self.proj = cp.cuda.Stream(non_blocking=True)
        self.ramp = cp.abs(cp.fft.rfftfreq(det)).astype(cp.float32)
        axis = cp.arange(det, dtype=cp.float32) - det / 2
        self.xx, self.yy = cp.meshgrid(axis, axis)
        self.image = cp.zeros((det, det), cp.float32)
        self.slots = [Slot(chunk, det) for _ in range(slots)]
        cp.cuda.get_current_stream().synchronize()

    def _filter(self, slot, block):
        slot.uploaded.synchronize()
        np.copyto(slot.pinned, block)
        with self.filt as s:
            s.wait_event(slot.consumed)
            slot.raw.set(slot.pinned, stream=s)
            slot.uploaded.record(s)
            spec = cp.fft.rfft(slot.raw, axis=1) * self.ramp
            slot.filtered[...] = cp.fft.irfft(spec, n=self.det, axis=1)
            slot.ready.record(s)

    def _backproject(self, slot, angles):
        with self.proj as s:
            s.wait_event(slot.ready)
            for row, theta in enumerate(angles):
                t = self.xx * np.cos(theta) + self.yy * np.sin(theta) + self.det / 2
                idx = cp.clip(t.astype(cp.int32), 0, self.det - 1)
                self.image += slot.filtered[row][idx]
            slot.consumed.record(s)

    def reconstruct(self, sinogram, angles):
        for i, lo in enumerate(range(0, len(angles), self.chunk)):
            slot = self.slots[i % len(self.slots)]
            self._filter(slot, sinogram[lo:lo + self.chunk])
            self._backproject(slot, angles[lo:lo + self.chunk])
        self.proj.synchronize()
        return self.image.get()


def main():
    det, views = 512, 720
    angles = np.linspace(0, np.pi, views, endpoint=False)
    sino = np.random.default_rng(0).random((views, det), dtype=np.float32)
    image = FBP(det, chunk=36).reconstruct(sino, angles)
    print(image.mean())


if __name__ == "__main__":
    main()
