"""Spectral cube on two GPUs: the first one calibrates, the second one collapses."""
import cupy as cp
import numpy as np

CHANNELS, PIXELS = 64, 1 << 18


class Calibrator:
    def __init__(self, device=0):
        self.device = device
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.cube = cp.empty((CHANNELS, PIXELS), cp.float32)

    def load(self, cube, gains):
        with cp.cuda.Device(self.device), self.stream:
            self.cube.set(cube, stream=self.stream)
            self.cube *= cp.asarray(gains)[:, None]

    def send(self, target):
        with cp.cuda.Device(self.device):
            cp.cuda.runtime.memcpyPeerAsync(
                target.cube.data.ptr, target.device, self.cube.data.ptr, self.device,
                self.cube.nbytes, self.stream.ptr)


class Collapser:
    def __init__(self, device=1):
        self.device = device
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.cube = cp.zeros((CHANNELS, PIXELS), cp.float32)
                self.stream.synchronize()

    def collapse(self):
        with cp.cuda.Device(self.device), self.stream:
            peak = self.cube.max(axis=0)
            return peak.get()


def main(cubes=8):
    rng = np.random.default_rng(29)
    calibrator, collapser = Calibrator(), Collapser()
    for _ in range(cubes):
        cube = rng.random((CHANNELS, PIXELS), dtype=np.float32)
        calibrator.load(cube, rng.uniform(0.9, 1.1, CHANNELS).astype(np.float32))
        calibrator.send(collapser)
        image = collapser.collapse()
        calibrator.stream.synchronize()
        print(image.mean())


if __name__ == "__main__":
    main()
