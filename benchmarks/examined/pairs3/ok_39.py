"""Bulk scoring of documents with pinned slots."""
import cupy as cp
import cupyx
import numpy as np


class RoundRobinScorer:
    def __init__(self, weights, rows, slots=8):
        self.stream = cp.cuda.Stream(non_blocking=True)
        dims = len(weights)
        with self.stream:
            self.w = cp.asarray(weights, dtype=cp.float32)
            self.x = cp.empty((rows, dims), cp.float32)
        self.inputs = [cupyx.empty_pinned((rows, dims), np.float32) for _ in range(slots)]
        self.outputs = [cupyx.empty_pinned(rows, np.float32) for _ in range(slots)]
        self.slots = slots

    def _enqueue(self, slot, batch):
        np.copyto(self.inputs[slot], batch)
        with self.stream:
            self.x.set(self.inputs[slot], stream=self.stream)
            score = 1 / (1 + cp.exp(-(self.x @ self.w)))
            score.get(stream=self.stream, out=self.outputs[slot], blocking=False)

    def _flush(self, used):
        self.stream.synchronize()
        return [self.outputs[i].copy() for i in range(used)]

    def score(self, batches):
        scores, used = [], 0
        for batch in batches:
            self._enqueue(used, batch)
            used += 1
            if used == self.slots:
                scores.extend(self._flush(used))
                used = 0
        scores.extend(self._flush(used))
        return np.concatenate(scores)


def main(rows=8192, dims=768):
    scorer = RoundRobinScorer(np.random.default_rng(0).normal(size=dims), rows)
    docs = np.load("embeddings.npy", mmap_mode="r")
    chunks = (docs[i:i + rows] for i in range(0, len(docs) - rows + 1, rows))
    np.save("scores.npy", scorer.score(chunks))


if __name__ == "__main__":
    main()
