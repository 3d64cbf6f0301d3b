import cupy as cp
import numpy as np


class TilePower:
    def __init__(self, image, tile, lanes=4):
        self.tile = tile
        self.image = cp.asarray(image)
        cp.cuda.get_current_stream().synchronize()
        self.lanes = [cp.cuda.Stream(non_blocking=True) for _ in range(lanes)]
        self.nx = image.shape[1] // tile
        self.ny = image.shape[0] // tile

    def window(self, n):
        y, x = divmod(n, self.nx)
        t = self.tile
        return self.image[y * t : (y + 1) * t, x * t : (x + 1) * t]

    def gradients(self):
        total = self.nx * self.ny
        power = [None] * total
        ends = [None] * total
        for n in range(total):
            with self.lanes[n % len(self.lanes)] as lane:
                w = self.window(n)
                gy = w[1:, :-1] - w[:-1, :-1]
                gx = w[:-1, 1:] - w[:-1, :-1]
                power[n] = gx * gx + gy * gy
                ends[n] = lane.record()
        return power, ends

    def mean_power(self):
        power, ends = self.gradients()
        main = cp.cuda.get_current_stream()
        acc = cp.zeros_like(power[0])
        for p, end in zip(reversed(power), reversed(ends)):
            main.wait_event(end)
            acc += p
        acc /= len(power)
        main.synchronize()
        return acc

    def outliers(self, factor=4.0):
        mean = self.mean_power()
        return cp.asnumpy(cp.argwhere(mean > factor * mean.mean()))


def synth(h, w):
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:h, :w]
    wave = np.sin(x * 0.4) + np.cos(y * 0.25)
    return (wave + rng.normal(0, 0.3, (h, w))).astype(np.float32)


def main():
    work = TilePower(synth(1024, 2048), 256)
    for factor in (2.0, 4.0, 8.0):
        print(factor, len(work.outliers(factor)))


if __name__ == "__main__":
    main()
