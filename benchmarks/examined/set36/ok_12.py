"""Line-scan inspection: pinned input, two device stages on two streams, result in mapped memory."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def flat_field(raw, gain, out):
    i, j = cuda.grid(2)
    if i < raw.shape[0] and j < raw.shape[1]:
        out[i, j] = raw[i, j] * gain[j]


@cuda.jit
def column_contrast(img, out):
    j = cuda.grid(1)
    if j < img.shape[1]:
        lo = img[0, j]
        hi = img[0, j]
        for i in range(1, img.shape[0]):
            v = img[i, j]
            lo = min(lo, v)
            hi = max(hi, v)
        out[j] = hi - lo


class Inspector:
    def __init__(self, lines, pixels, gain):
        self.front = cuda.stream()
        self.back = cuda.stream()
        self.raw_host = cuda.pinned_array((lines, pixels), dtype=np.float32)
        self.result = cuda.mapped_array(pixels, dtype=np.float32)
        self.raw = cuda.device_array((lines, pixels), dtype=np.float32)
        self.corrected = cuda.device_array((lines, pixels), dtype=np.float32)
        self.gain = cuda.to_device(np.asarray(gain, dtype=np.float32))
        self.corrected_ready = cuda.event(timing=False)
        self.finished = cuda.event(timing=False)
        self.block2 = (8, 32)
        self.grid2 = (math.ceil(lines / 8), math.ceil(pixels / 32))
        self.grid1 = math.ceil(pixels / 128)
        cuda.synchronize()

    def submit(self, scan):
        self.finished.synchronize()
        self.raw_host[...] = scan
        self.raw.copy_to_device(self.raw_host, stream=self.front)
        flat_field[self.grid2, self.block2, self.front](self.raw, self.gain, self.corrected)
        self.corrected_ready.record(self.front)
        self.corrected_ready.wait(self.back)
        column_contrast[self.grid1, 128, self.back](self.corrected, self.result)
        self.finished.record(self.back)

    def collect(self):
        self.finished.synchronize()
        return np.array(self.result, copy=True)


def inspect(scans, limit=0.8):
    lines, pixels = scans[0].shape
    inspector = Inspector(lines, pixels, np.ones(pixels))
    flagged = []
    inspector.submit(scans[0])
    for following in scans[1:]:
        contrast = inspector.collect()
        inspector.submit(following)
        flagged.append(np.flatnonzero(contrast > limit))
    flagged.append(np.flatnonzero(inspector.collect() > limit))
    return flagged


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    data = [rng.random((512, 4096), dtype=np.float32) for _ in range(20)]
    print([len(f) for f in inspect(data)])
