import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream

rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
cp.cuda.set_allocator(rmm_cupy_allocator)


class Shard:
    def __init__(self, index):
        self.index = index
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.stream)
        self.centroids = None

    def load(self, points):
        raw = rmm.DeviceBuffer.to_device(points.view(np.uint8).ravel(), stream=self.rmm_stream)
        with self.stream:
            flat = cp.ndarray(points.shape, points.dtype,
                              cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(raw.ptr, raw.size, raw), 0))
            self.points = flat - flat.mean(axis=0)
        return self

    def assign(self, centroids):
        with self.stream:
            c = cp.asarray(centroids)
            d = ((self.points[:, None, :] - c[None]) ** 2).sum(axis=-1)
            labels = d.argmin(axis=1)
            one_hot = (labels[:, None] == cp.arange(len(centroids))).astype(cp.float64)
            self.sums = one_hot.T @ self.points
            self.counts = one_hot.sum(axis=0)

    def fetch(self):
        with self.stream:
            return self.sums.get(), self.counts.get()


def kmeans(chunks, k, rounds):
    shards = [Shard(i).load(c) for i, c in enumerate(chunks)]
    centroids = np.random.default_rng(0).standard_normal((k, chunks[0].shape[1]))
    for _ in range(rounds):
        for s in shards:
            s.assign(centroids)
        parts = [s.fetch() for s in shards]
        sums = sum(p[0] for p in parts)
        counts = np.maximum(sum(p[1] for p in parts), 1)
        centroids = sums / counts[:, None]
    return centroids


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    print(kmeans([rng.random((2000, 8)) for _ in range(4)], 5, 10)[0])
