import cupy as cp
import cupyx
import numpy as np


def to_device(array, stream):
    """Copy a numpy array to the device without blocking the caller."""
    staging = cupyx.empty_pinned(array.shape, dtype=array.dtype)
    np.copyto(staging, array)
    with stream:
        out = cp.empty(array.shape, dtype=array.dtype)
    out.data.copy_from_host_async(staging.ctypes.data, staging.nbytes, stream)
    return out


class VectorIndex:
    def __init__(self, dim):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.dim = dim
        self.parts = []

    def add(self, vectors):
        part = to_device(vectors, self.stream)
        with self.stream:
            part /= cp.linalg.norm(part, axis=1, keepdims=True)
        self.parts.append(part)

    def search(self, query, k):
        q = to_device(query, self.stream)
        with self.stream:
            base = cp.concatenate(self.parts)
            scores = base @ q
            best = cp.argsort(-scores)[:k]
        self.stream.synchronize()
        return best.get(stream=self.stream)


def main():
    rng = np.random.default_rng(0)
    index = VectorIndex(512)
    for shard in range(32):
        index.add(rng.standard_normal((8192, 512)).astype(np.float32))
    print(index.search(rng.standard_normal(512).astype(np.float32), 10))


if __name__ == "__main__":
    main()
