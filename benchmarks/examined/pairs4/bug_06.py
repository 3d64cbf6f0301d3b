"""Microphone array beamformer with host-side notifications (CuPy)."""
import queue

import cupy as cp
import cupyx
import numpy as np


class BeamLane:
    def __init__(self, channels, samples, finished):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = cupyx.empty_pinned((channels, samples), np.float32)
        self.host_out = cupyx.empty_pinned(samples, np.float32)
        self.finished = finished

    def start(self, block, weights):
        np.copyto(self.host_in, block)
        with self.stream:
            x = cp.empty(self.host_in.shape, cp.float32)
            x.set(self.host_in, stream=self.stream)
            y = (x * weights[:, None]).sum(axis=0)
            self.stream.launch_host_func(self.finished.put, self)
            y.data.copy_to_host_async(self.host_out.ctypes.data, self.host_out.nbytes, self.stream)


class Beamformer:
    def __init__(self, channels=32, samples=48000, lanes=2):
        self.finished = queue.Queue()
        self.idle = [BeamLane(channels, samples, self.finished) for _ in range(lanes)]
        self.weights = cp.linspace(0.1, 1.0, channels, dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()
        self.energy = []

    def _retire(self):
        lane = self.finished.get()
        self.energy.append(float(np.square(lane.host_out).mean()))
        self.idle.append(lane)

    def feed(self, block):
        while not self.idle:
            self._retire()
        self.idle.pop().start(block, self.weights)

    def flush(self, lanes=2):
        while len(self.idle) < lanes:
            self._retire()
        return self.energy


def main():
    rng = np.random.default_rng(5)
    former = Beamformer()
    for _ in range(100):
        former.feed(rng.standard_normal((32, 48000), dtype=np.float32))
    print(np.mean(former.flush()))


if __name__ == "__main__":
    main()
