"""Frame interpolation: finished frames are written by stream host functions."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class FrameBuffer:
    def __init__(self, shape):
        self.pixels = cupyx.empty_pinned(shape, np.uint8)
        self.index = -1


class FrameWriter(threading.Thread):
    def __init__(self, free):
        super().__init__(daemon=True)
        self.ready = queue.Queue()
        self.free = free
        self.digests = {}

    def run(self):
        while True:
            frame = self.ready.get()
            if frame is None:
                return
            self.digests[frame.index] = int(frame.pixels.sum(dtype=np.int64))
            self.free.put(frame)


class Interpolator:
    def __init__(self, shape, n_buffers=4):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.free = queue.Queue()
        for _ in range(n_buffers):
            self.free.put(FrameBuffer(shape))
        self.writer = FrameWriter(self.free)
        self.writer.start()
        self._live = []

    def _blend(self, a, b, t):
        mix = (1.0 - t) * a.astype(cp.float32) + t * b.astype(cp.float32)
        return cp.clip(mix, 0, 255).astype(cp.uint8)

    def submit(self, index, a, b, t):
        frame = self.free.get()
        frame.index = index
        with self.compute:
            out = self._blend(a, b, t)
            blended = self.compute.record()
        self.copy.wait_event(blended)
        out.get(stream=self.copy, out=frame.pixels, blocking=False)
        self._live.append(out)
        self.compute.launch_host_func(self.writer.ready.put, frame)

    def close(self):
        self.compute.synchronize()
        self.copy.synchronize()
        self.writer.ready.put(None)
        self.writer.join()
        self._live.clear()


def main():
    shape = (1080, 1920, 3)
    interp = Interpolator(shape)
    with interp.compute:
        frames = [cp.random.randint(0, 256, shape).astype(cp.uint8) for _ in range(4)]
    index = 0
    for a, b in zip(frames, frames[1:]):
        for step in range(8):
            interp.submit(index, a, b, step / 8)
            index += 1
    interp.close()
    print(len(interp.writer.digests))


if __name__ == "__main__":
    main()
