"""Online flat-field correction of camera frames with a small staging ring."""
from dataclasses import dataclass, field

import cupy as cp
import cupyx
import numpy as np

FRAME = (1024, 1024)


@dataclass
class Staging:
    pinned: np.ndarray
    gpu: cp.ndarray
    sent: cp.cuda.Event = field(default_factory=lambda: cp.cuda.Event(disable_timing=True))
    free: cp.cuda.Event = field(default_factory=lambda: cp.cuda.Event(disable_timing=True))


class FlatFielder:
    def __init__(self, flat, depth=2):
        self.h2d = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.ring = [
            Staging(cupyx.empty_pinned(FRAME, np.float32), cp.empty(FRAME, cp.float32))
            for _ in range(depth)
        ]
        self.gain = cp.asarray(1.0 / flat, dtype=cp.float32)
        self.total = cp.zeros(FRAME, cp.float32)
        cp.cuda.Device().synchronize()
        self._i = 0

    def feed(self, frame):
        st = self.ring[self._i % len(self.ring)]
        self._i += 1
        np.copyto(st.pinned, frame)
        self.h2d.wait_event(st.free)
        st.gpu.set(st.pinned, stream=self.h2d)
        st.sent.record(self.h2d)
        with self.work as stream:
            stream.wait_event(st.sent)
            cp.multiply(st.gpu, self.gain, out=st.gpu)
            self.total += st.gpu
            st.free.record(stream)

    def finish(self):
        self.work.synchronize()
        return cp.asnumpy(self.total)


def run(camera, flat, count=500):
    ff = FlatFielder(flat)
    for _ in range(count):
        ff.feed(camera.grab())
    return ff.finish()


if __name__ == "__main__":
    from beamline.camera import open_camera

    cam = open_camera("pco.edge")
    np.save("sum.npy", run(cam, np.load("flat.npy")))
