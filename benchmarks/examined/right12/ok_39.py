import numpy as np
from numba import cuda


@cuda.jit
def score_rows(rows, weights, scores):
    i = cuda.grid(1)
    if i < rows.shape[0]:
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * weights[j]
        scores[i] = total


@cuda.jit
def count_above(scores, size, limit, counter):
    i = cuda.grid(1)
    if i < size and scores[i] > limit:
        cuda.atomic.add(counter, 0, 1)


class RowScorer:
    """Writes scores straight into mapped host memory."""

    def __init__(self, capacity, columns):
        self.capacity = capacity
        self.stream = cuda.stream()
        self.staging = cuda.pinned_array((capacity, columns), dtype=np.float32)
        self.rows = cuda.device_array((capacity, columns), dtype=np.float32)
        self.weights = cuda.device_array(columns, dtype=np.float32)
        self.scores = cuda.mapped_array(capacity, dtype=np.float32)
        self.counter = cuda.mapped_array(1, dtype=np.int32)

    def set_weights(self, weights):
        self.weights.copy_to_device(np.ascontiguousarray(weights, dtype=np.float32))

    def score(self, rows):
        count = len(rows)
        if count > self.capacity:
            raise ValueError("too many rows")
        if count == 0:
            return np.empty(0, dtype=np.float32)
        self.staging[:count] = rows
        with self.stream.auto_synchronize():
            self.rows.copy_to_device(self.staging, stream=self.stream)
            score_rows[(count + 127) // 128, 128, self.stream](
                self.rows[:count], self.weights, self.scores)
        return self.scores[:count].copy()

    def above(self, rows, limit):
        scores = self.score(rows)
        self.counter[0] = 0
        if len(scores):
            with self.stream.auto_synchronize():
                count_above[(len(scores) + 127) // 128, 128, self.stream](
                    self.scores, len(scores), limit, self.counter)
        return int(self.counter[0]), scores


def main():
    rng = np.random.default_rng(0)
    scorer = RowScorer(4096, 96)
    for round_number in range(4):
        weights = rng.standard_normal(96)
        scorer.set_weights(weights)
        for count in (4096, 17, 0, 1000):
            rows = rng.standard_normal((count, 96)).astype(np.float32)
            found, scores = scorer.above(rows, 1.0)
            want = rows @ weights.astype(np.float32)
            close = np.allclose(scores, want, atol=1e-3)
            print(round_number, count, close, found == int((scores > 1.0).sum()))
    try:
        scorer.score(np.zeros((3, 5), dtype=np.float32))
    except ValueError as exc:
        print("rejected:", type(exc).__name__)
    print(scorer.score(np.zeros((2, 96), dtype=np.float32)).tolist())


if __name__ == "__main__":
    main()
