"""Band statistics of hyperspectral cubes, one stream per group of bands."""
import cupy as cp
import cupyx
import numpy as np


class BandStatistics:
    def __init__(self, bands, groups=4):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(groups)]
        self.groups = np.array_split(np.arange(bands), groups)
        self.mean = cupyx.empty_pinned(bands, np.float32)
        self.std = cupyx.empty_pinned(bands, np.float32)

    def _launch(self, cube, bands, stream):
        first, last = int(bands[0]), int(bands[-1]) + 1
        with stream:
            part = cp.asarray(cube[first:last]).reshape(last - first, -1)
            m, s = part.mean(axis=1), part.std(axis=1)
            m.get(stream=stream, out=self.mean[first:last], blocking=False)
            s.get(stream=stream, out=self.std[first:last], blocking=False)

    def compute(self, cube):
        for bands, stream in zip(self.groups, self.streams):
            self._launch(cube, bands, stream)
        stream.synchronize()
        return self.mean.copy(), self.std.copy()


def main(root="/data/aviris", count=40, bands=224):
    stats = BandStatistics(bands)
    table = np.empty((count, 2, bands), np.float32)
    for i in range(count):
        cube = np.load(f"{root}/cube_{i:03d}.npy").astype(np.float32)
        table[i, 0], table[i, 1] = stats.compute(cube)
    np.save("bands.npy", table)


if __name__ == "__main__":
    main()
