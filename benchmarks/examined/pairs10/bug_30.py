"""Session features for a recommender: cuDF columns into a CuPy scoring kernel."""
import cudf
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator

SCORE = cp.RawKernel(r"""
extern "C" __global__
void score(const double *dwell, const double *clicks, double *out, double w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = w * log1p(dwell[i]) + (1.0 - w) * clicks[i];
}
""", "score")


class SessionScorer:
    """Scores the sessions of an event table."""

    def __init__(self, weight=0.7):
        self.weight = weight
        self.stream = cp.cuda.Stream(non_blocking=True)

    def sessions(self, events):
        grouped = events.groupby("session").agg({"dwell": "sum", "click": "sum"})
        grouped["dwell"] = grouped["dwell"] / 1000.0
        grouped["click"] = grouped["click"].astype("float64") * 2.0
        return grouped

    def score(self, events):
        table = self.sessions(events)
        dwell, clicks = table["dwell"].values, table["click"].values
        n = len(table)
        with self.stream:
            out = cp.empty(n, dtype=cp.float64)
            SCORE(((n + 255) // 256,), (256,),
                  (dwell, clicks, out, np.float64(self.weight), np.int32(n)))
            result = out.get()
        self.stream.synchronize()
        return result


def make_events(rng, rows, sessions):
    return cudf.DataFrame({
        "session": rng.integers(0, sessions, rows),
        "dwell": rng.exponential(800.0, rows),
        "click": rng.integers(0, 2, rows),
    })


def main(hours=24):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    cp.cuda.set_allocator(rmm_cupy_allocator)
    rng = np.random.default_rng(3)
    scorer = SessionScorer()
    for hour in range(hours):
        scores = scorer.score(make_events(rng, 2_000_000, 400_000))
        print(hour, float(np.median(scores)))


if __name__ == "__main__":
    main()
