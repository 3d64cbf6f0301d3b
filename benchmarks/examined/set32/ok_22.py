"""K-means over a resident data set; partial sums on several streams, merge on stream 0."""
import cupy as cp

_ASSIGN = cp.RawKernel(
    r"""
    extern "C" __global__
    void assign(const float* pts, const float* centers, int* label,
                int n, int dim, int k) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float best = 1e30f; int arg = 0;
        for (int c = 0; c < k; ++c) {
            float d = 0.f;
            for (int j = 0; j < dim; ++j) {
                float t = pts[(size_t)i * dim + j] - centers[c * dim + j];
                d += t * t;
            }
            if (d < best) { best = d; arg = c; }
        }
        label[i] = arg;
    }
    """,
    "assign",
)


class Shard:
    def __init__(self, points, k):
        self.points = points
        self.labels = cp.zeros(points.shape[0], dtype=cp.int32)
        self.stream = cp.cuda.Stream()
        self.k = k

    def partial(self, centers):
        n, dim = self.points.shape
        with self.stream:
            _ASSIGN(
                ((n + 255) // 256,),
                (256,),
                (self.points, centers, self.labels, cp.int32(n), cp.int32(dim), cp.int32(self.k)),
            )
            onehot = (self.labels[:, None] == cp.arange(self.k)[None, :]).astype(cp.float32)
            return onehot.T @ self.points, onehot.sum(axis=0)


class KMeans:
    def __init__(self, points, k, shards=4):
        self.k = k
        with cp.cuda.Stream.null:
            self.shards = [Shard(p, k) for p in cp.array_split(points, shards)]
            self.centers = points[:: max(1, len(points) // k)][:k].copy()

    def step(self):
        partials = [s.partial(self.centers) for s in self.shards]
        with cp.cuda.Stream.null:
            sums = partials[0][0].copy()
            counts = partials[0][1].copy()
            for part_sum, part_count in partials[1:]:
                sums += part_sum
                counts += part_count
            fresh = sums / cp.maximum(counts, 1)[:, None]
            shift = cp.abs(fresh - self.centers).max()
            self.centers[...] = fresh
        return shift

    def fit(self, limit=50, tol=1e-4):
        for _ in range(limit):
            shift = self.step()
            with cp.cuda.Stream.null:
                if float(shift) < tol:
                    break
        with cp.cuda.Stream.null:
            return cp.asnumpy(self.centers), [cp.asnumpy(s.labels) for s in self.shards]


def cluster(points, k):
    with cp.cuda.Stream.null:
        device = cp.asarray(points, dtype=cp.float32)
    return KMeans(device, k).fit()
