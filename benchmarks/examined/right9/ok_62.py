import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Recorder(threading.Thread):
    """Consumes frames which the stream announces by host functions."""

    def __init__(self, shape, slots=3):
        super().__init__()
        self.frames = [cupyx.zeros_pinned(shape, np.float32) for _ in range(slots)]
        self.free = queue.Queue()
        self.ready = queue.Queue()
        for i in range(slots):
            self.free.put(i)
        self.peaks = []

    def run(self):
        while True:
            item = self.ready.get()
            if item is None:
                return
            slot, step = item
            frame = self.frames[slot]
            self.peaks.append((step, float(frame.max()), float(frame.std())))
            self.free.put(slot)


class Wave:
    def __init__(self, n, recorder):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.recorder = recorder
        with self.stream:
            x = cp.linspace(-1, 1, n, dtype=cp.float32)
            self.now = cp.exp(-50 * x[:, None] ** 2 - 50 * x[None, :] ** 2)
            self.before = self.now.copy()

    def step(self, c2=0.2):
        with self.stream:
            u = self.now
            lap = cp.roll(u, 1, 0) + cp.roll(u, -1, 0) + cp.roll(u, 1, 1) + cp.roll(u, -1, 1) - 4 * u
            self.before, self.now = u, 2 * u - self.before + c2 * lap

    def record(self, step):
        slot = self.recorder.free.get()
        self.now.get(stream=self.stream, out=self.recorder.frames[slot], blocking=False)
        self.stream.launch_host_func(self.recorder.ready.put, (slot, step))

    def close(self):
        self.stream.synchronize()
        self.recorder.ready.put(None)
        self.recorder.join()


def main():
    recorder = Recorder((512, 512))
    recorder.start()
    wave = Wave(512, recorder)
    for step in range(400):
        wave.step()
        if step % 5 == 0:
            wave.record(step)
    wave.close()
    print(recorder.peaks[-3:])


if __name__ == "__main__":
    main()
