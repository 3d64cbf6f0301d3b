"""Stream-parallel matching of query descriptors against a gallery."""
import cupy as cp
import numpy as np


class GalleryMatcher:
    def __init__(self, gallery, n_streams=4):
        self.gallery = cp.asarray(gallery, dtype=cp.float32)
        self.norms = cp.sum(self.gallery ** 2, axis=1)
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        cp.cuda.Device().synchronize()

    def _prepare(self, batch):
        q = cp.asarray(batch, dtype=cp.float32)
        q /= cp.linalg.norm(q, axis=1, keepdims=True) + 1e-8
        return q

    def match(self, batches):
        results = []
        for i, batch in enumerate(batches):
            stream = self.streams[i % len(self.streams)]
            query = self._prepare(batch)
            stream.wait_event(cp.cuda.Stream.null.record())
            with stream:
                d = self.norms[None, :] - 2.0 * (query @ self.gallery.T)
                results.append(cp.argmin(d, axis=1))
            del query
        for stream in self.streams:
            stream.synchronize()
        return [cp.asnumpy(r) for r in results]


def load_batches(path, size=4096):
    data = np.load(path, mmap_mode="r")
    for start in range(0, len(data), size):
        yield np.ascontiguousarray(data[start:start + size])


def main():
    matcher = GalleryMatcher(np.load("gallery.npy"))
    ids = matcher.match(load_batches("queries.npy"))
    np.save("matches.npy", np.concatenate(ids))


if __name__ == "__main__":
    main()
