import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Frame:
    def __init__(self, shape):
        self.pixels = cupyx.empty_pinned(shape, np.float32)
        self.step = -1


class FrameWriter(threading.Thread):
    def __init__(self, shape, count):
        super().__init__(daemon=True)
        self.spare, self.filled = queue.SimpleQueue(), queue.SimpleQueue()
        for _ in range(count):
            self.spare.put(Frame(shape))
        self.means = {}

    def run(self):
        while (frame := self.filled.get()) is not None:
            self.means[frame.step] = float(frame.pixels.mean())
            self.spare.put(frame)


class GrayScott:
    def __init__(self, shape, writer):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.writer = writer
        with self.stream:
            self.u = cp.ones(shape, cp.float32)
            self.v = cp.zeros(shape, cp.float32)
            self.v[shape[0] // 2 - 8:shape[0] // 2 + 8, shape[1] // 2 - 8:shape[1] // 2 + 8] = 0.5

    @staticmethod
    def _laplace(a):
        return (cp.roll(a, 1, 0) + cp.roll(a, -1, 0) + cp.roll(a, 1, 1) + cp.roll(a, -1, 1)) - 4 * a

    def advance(self, feed=0.035, kill=0.06):
        with self.stream:
            reaction = self.u * self.v * self.v
            self.u += 0.16 * self._laplace(self.u) - reaction + feed * (1 - self.u)
            self.v += 0.08 * self._laplace(self.v) + reaction - (feed + kill) * self.v

    def emit(self, step):
        frame = self.writer.spare.get()
        frame.step = step
        with self.stream:
            self.v.get(stream=self.stream, out=frame.pixels)
        self.stream.add_callback(lambda stream, status, item: self.writer.filled.put(item), frame)

    def finish(self):
        self.stream.synchronize()
        self.writer.filled.put(None)
        self.writer.join()
        return self.writer.means


def main(steps=400, every=20):
    shape = (512, 512)
    writer = FrameWriter(shape, 3)
    writer.start()
    model = GrayScott(shape, writer)
    for step in range(steps):
        model.advance()
        if step % every == 0:
            model.emit(step)
    return model.finish()


if __name__ == "__main__":
    print(main())
