"""Batched forest scoring: chunks are staged in page-locked memory and scored on the GPU."""
import numpy as np
from numba import cuda

ROWS, COLS, TREES, DEPTH = 1 << 16, 32, 64, 6


@cuda.jit
def score_rows(x, features, thresholds, leaves, out):
    row = cuda.grid(1)
    if row < x.shape[0]:
        total = 0.0
        for tree in range(features.shape[0]):
            node = 0
            for _ in range(DEPTH):
                if x[row, features[tree, node]] < thresholds[tree, node]:
                    node = 2 * node + 1
                else:
                    node = 2 * node + 2
            total += leaves[tree, node - (2 ** DEPTH - 1)]
        out[row] = total


class Marker:
    """Completion marker of an asynchronous copy."""

    def __init__(self):
        self.event = cuda.event(timing=False)

    def wait(self):
        self.event.synchronize()


def async_copy(stream, src, dst):
    """Copy between host and device on stream; the host side stays in use until
    the returned marker was waited for."""
    marker = Marker()
    if isinstance(dst, np.ndarray):
        src.copy_to_host(dst, stream=stream)
    else:
        dst.copy_to_device(src, stream=stream)
    return marker


class Forest:
    def __init__(self, rng):
        nodes = 2 ** DEPTH - 1
        self.features = cuda.to_device(rng.integers(0, COLS, (TREES, nodes)).astype(np.int32))
        self.thresholds = cuda.to_device(rng.normal(size=(TREES, nodes)).astype(np.float32))
        self.leaves = cuda.to_device(rng.normal(size=(TREES, nodes + 1)).astype(np.float32))


class ForestScorer:
    def __init__(self, forest):
        self.forest = forest
        self.stream = cuda.stream()
        self.staging = cuda.pinned_array((ROWS, COLS), np.float32)
        self.scores = cuda.pinned_array(ROWS, np.float32)
        self.d_rows = [cuda.device_array((ROWS, COLS), np.float32) for _ in range(2)]
        self.d_scores = cuda.device_array(ROWS, np.float32)

    def _upload(self, chunk, target):
        np.copyto(self.staging, chunk)
        return async_copy(self.stream, self.staging, target)

    def score(self, chunks):
        """Yields the mean score of every chunk."""
        for index, chunk in enumerate(chunks):
            rows = self.d_rows[index % 2]
            uploaded = self._upload(chunk, rows)
            score_rows[(ROWS + 255) // 256, 256, self.stream](
                rows, self.forest.features, self.forest.thresholds,
                self.forest.leaves, self.d_scores)
            finished = async_copy(self.stream, self.d_scores, self.scores)
            uploaded.wait()
            finished.wait()
            yield float(self.scores.mean())


def main():
    rng = np.random.default_rng(7)
    scorer = ForestScorer(Forest(rng))
    chunks = (rng.normal(size=(ROWS, COLS)).astype(np.float32) for _ in range(16))
    for index, mean in enumerate(scorer.score(chunks)):
        print(index, mean)
    scorer.stream.synchronize()


if __name__ == "__main__":
    main()
