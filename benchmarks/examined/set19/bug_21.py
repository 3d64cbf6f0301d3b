"""Chunked silhouette coefficient on top of a light resources handle."""
import cupy as cp
import numpy as np

_ACCUMULATE = cp.RawKernel(r'''
extern "C" __global__
void accumulate_a_b(float* a, float* b, const int* y, const int* counts,
                    const float* dist, int row_off, int col_off,
                    int n_rows, int n_cols, int n_labels) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= n_rows || c >= n_cols || r + row_off == c + col_off) return;
    int rc = y[r + row_off], cc = y[c + col_off];
    if (counts[rc] == 1) return;
    float d = dist[r * n_cols + c];
    if (rc == cc) atomicAdd(&a[r + row_off], d / (counts[cc] - 1));
    else atomicAdd(&b[(r + row_off) * n_labels + cc], d / counts[cc]);
}
''', "accumulate_a_b")


class Resources:
    """A main stream and a pool of worker streams."""

    def __init__(self, n_pool=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._pool = [cp.cuda.Stream(non_blocking=True) for _ in range(n_pool)]

    def get_next_usable_stream(self, idx):
        return self._pool[idx % len(self._pool)]

    def wait_stream_pool_on_stream(self):
        ready = self.stream.record()
        for worker in self._pool:
            worker.wait_event(ready)

    def wait_stream_on_stream_pool(self):
        for worker in self._pool:
            self.stream.wait_event(worker.record())


def pairwise_distance(handle, left, right, out):
    """Euclidean distances between the rows of left and right."""
    with handle.stream:
        sq = (left * left).sum(1)[:, None] + (right * right).sum(1)[None, :]
        cp.matmul(left, right.T, out=out)
        cp.maximum(sq - 2.0 * out, 0.0, out=out)
        cp.sqrt(out, out=out)


def get_pairwise_distance(handle, left, right, stream):
    with stream:
        distances = cp.empty((left.shape[0], right.shape[0]), cp.float32)
    pairwise_distance(handle, left, right, distances)
    return distances


def compute_chunked_a_b(a, b, y, counts, distances, row_off, col_off, stream):
    rows, cols = distances.shape
    grid = ((rows + 15) // 16, (cols + 15) // 16)
    with stream:
        _ACCUMULATE(grid, (16, 16), (
            a, b, y, counts, distances, np.int32(row_off), np.int32(col_off),
            np.int32(rows), np.int32(cols), np.int32(b.shape[1])))


def silhouette_score(handle, X, y, n_labels, chunk):
    n_rows = X.shape[0]
    with handle.stream:
        counts = cp.bincount(y, minlength=n_labels).astype(cp.int32)
        a = cp.zeros(n_rows, cp.float32)
        b = cp.zeros((n_rows, n_labels), cp.float32)
        b[cp.arange(n_rows), y] = cp.inf

    handle.wait_stream_pool_on_stream()

    step = 0
    for i in range(0, n_rows, chunk):
        for j in range(0, n_rows, chunk):
            chunk_stream = handle.get_next_usable_stream(step)
            distances = get_pairwise_distance(
                handle, X[i:i + chunk], X[j:j + chunk], chunk_stream)
            compute_chunked_a_b(a, b, y, counts, distances, i, j, chunk_stream)
            step += 1

    handle.wait_stream_on_stream_pool()
    with handle.stream:
        nearest = b.min(axis=1)
        score = ((nearest - a) / cp.maximum(nearest, a)).mean()
        return float(score)


def main():
    rng = np.random.default_rng(0)
    X = cp.asarray(rng.normal(size=(4096, 32)).astype(np.float32))
    y = cp.asarray(rng.integers(0, 8, size=4096).astype(np.int32))
    cp.cuda.Stream.null.synchronize()
    print(silhouette_score(Resources(), X, y, 8, chunk=512))


if __name__ == "__main__":
    main()
