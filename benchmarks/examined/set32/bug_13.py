"""Out-of-core k-means assignment with CuPy: batches are uploaded while the previous one is processed."""
import cupy as cp
import numpy as np


class BatchLoader:
    """Iterates over a host matrix in two device slots; uploads run on `copy_stream`."""

    def __init__(self, host, batch_rows):
        self.host = host
        self.batch_rows = batch_rows
        self.n_batches = -(-host.shape[0] // batch_rows)
        cols = host.shape[1]
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.device = [cp.empty((batch_rows, cols), dtype=host.dtype) for _ in range(2)]
        nbytes = batch_rows * cols * host.dtype.itemsize
        self.staging = []
        for _ in range(2):
            mem = cp.cuda.alloc_pinned_memory(nbytes)
            view = np.frombuffer(mem, host.dtype, batch_rows * cols)
            self.staging.append(view.reshape(batch_rows, cols))
        self.ready = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self._next = 0
        cp.cuda.get_current_stream().synchronize()

    def _rows(self, index):
        start = index * self.batch_rows
        return start, min(self.batch_rows, self.host.shape[0] - start)

    def prefetch_next(self):
        if self._next >= self.n_batches:
            return
        slot = self._next % 2
        self.ready[slot].synchronize()
        start, n = self._rows(self._next)
        np.copyto(self.staging[slot][:n], self.host[start : start + n])
        self.device[slot][:n].set(self.staging[slot][:n], stream=self.copy_stream)
        self.ready[slot].record(self.copy_stream)
        self._next += 1

    def get(self, index, stream):
        slot = index % 2
        _, n = self._rows(index)
        stream.wait_event(self.ready[slot])
        return self.device[slot][:n]


class KMeansAssigner:
    def __init__(self, centers):
        self.centers = cp.asarray(centers)
        self.norms = (self.centers**2).sum(axis=1)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.get_current_stream().synchronize()

    def assign(self, host, batch_rows=65536):
        loader = BatchLoader(host, batch_rows)
        labels = cp.empty(host.shape[0], dtype=cp.int32)
        cp.cuda.get_current_stream().synchronize()
        loader.prefetch_next()
        with self.compute_stream:
            for i in range(loader.n_batches):
                batch = loader.get(i, self.compute_stream)
                loader.prefetch_next()
                dist = self.norms[None, :] - 2.0 * (batch @ self.centers.T)
                start = i * batch_rows
                labels[start : start + batch.shape[0]] = dist.argmin(axis=1)
        self.compute_stream.synchronize()
        return cp.asnumpy(labels)


def main():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((1 << 21, 128), dtype=np.float32)
    centers = points[rng.choice(points.shape[0], 4096, replace=False)]
    labels = KMeansAssigner(centers).assign(points)
    print(np.bincount(labels, minlength=4096).max())


if __name__ == "__main__":
    main()
