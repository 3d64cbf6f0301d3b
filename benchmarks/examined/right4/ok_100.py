import queue
import threading

import numpy as np
import warp as wp


@wp.kernel
def swirl(pos: wp.array(dtype=wp.vec2), angle: float):
    i = wp.tid()
    p = pos[i]
    r = wp.length(p)
    a = angle / (1.0 + r)
    pos[i] = wp.vec2(p[0] * wp.cos(a) - p[1] * wp.sin(a), p[0] * wp.sin(a) + p[1] * wp.cos(a))


class Frame:
    def __init__(self, n, device):
        self.host = wp.zeros(n, dtype=wp.vec2, device="cpu", pinned=True)
        self.copied = wp.Event(device)
        self.index = -1


class Writer(threading.Thread):
    def __init__(self, frames):
        super().__init__(daemon=True)
        self.spare, self.filled = queue.Queue(), queue.Queue(maxsize=len(frames))
        for f in frames:
            self.spare.put(f)
        self.bounds = []

    def run(self):
        while (frame := self.filled.get()) is not None:
            wp.synchronize_event(frame.copied)
            view = frame.host.numpy()
            self.bounds.append((frame.index, view.min(axis=0), view.max(axis=0)))
            self.spare.put(frame)


class Swirl:
    def __init__(self, n, device="cuda:0"):
        points = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
        self.pos = wp.array(points, dtype=wp.vec2, device=device)
        wp.synchronize_device(device)
        self.n = n
        self.stream = wp.Stream(device)
        self.writer = Writer([Frame(n, device) for _ in range(3)])
        self.writer.start()

    def step(self, i):
        wp.launch(swirl, dim=self.n, inputs=[self.pos, 0.05], stream=self.stream)
        if i % 4 == 0:
            frame = self.writer.spare.get()
            frame.index = i
            wp.copy(frame.host, self.pos, stream=self.stream)
            self.stream.record_event(frame.copied)
            self.writer.filled.put(frame)

    def close(self):
        self.writer.filled.put(None)
        self.writer.join()
        wp.synchronize_stream(self.stream)
        return self.writer.bounds


def main(steps=200):
    wp.init()
    swirl_sim = Swirl(1 << 18)
    for i in range(steps):
        swirl_sim.step(i)
    return swirl_sim.close()
