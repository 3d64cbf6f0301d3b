"""Nearest-centroid assignment of image descriptors with periodic host waits."""
import cupy as cp
import cupyx
import numpy as np

SYNC_EVERY = 16
SLOTS = 8


class Assigner:
    def __init__(self, centroids, rows):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.c = cp.asarray(centroids, dtype=cp.float32)
            self.c2 = cp.square(self.c).sum(axis=1)
            self.batch = cp.empty((rows, self.c.shape[1]), cp.float32)
            self.labels = cp.arange(len(self.c))
            self.counts = cp.zeros(len(self.c), cp.int64)
        self.staging = [cupyx.empty_pinned((rows, self.c.shape[1]), np.float32) for _ in range(SLOTS)]

    def _assign(self):
        d = self.c2[None, :] - 2 * (self.batch @ self.c.T)
        nearest = d.argmin(axis=1)
        self.counts += (nearest[:, None] == self.labels[None, :]).sum(axis=0)

    def run(self, batches):
        for step, rows in enumerate(batches):
            if step and step % SYNC_EVERY == 0:
                self.stream.synchronize()
            host = self.staging[step % SLOTS]
            np.copyto(host, rows)
            with self.stream:
                self.batch.set(host, stream=self.stream)
                self._assign()
        with self.stream:
            return cp.asnumpy(self.counts)


def read(path, rows):
    data = np.load(path, mmap_mode="r")
    for start in range(0, len(data) - rows + 1, rows):
        yield data[start:start + rows]


def main(rows=16384):
    assigner = Assigner(np.load("centroids.npy"), rows)
    np.save("counts.npy", assigner.run(read("descriptors.npy", rows)))


if __name__ == "__main__":
    main()
