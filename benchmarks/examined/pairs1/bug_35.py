"""CuPy n-gram lookup: prompts are copied to the device through pinned scratch memory."""
import cupy as cp
import cupyx
import numpy as np


class NGramProposer:
    def __init__(self, batch, length):
        self.shape = (batch, length)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.context = cp.zeros(self.shape, dtype=cp.int32)
            self.votes = cp.zeros((batch,), dtype=cp.int64)
            self.mix = cp.random.standard_normal((length, length), dtype=cp.float32)

    def _stage(self, rows):
        scratch = cupyx.empty_pinned(self.shape, dtype=np.int32)
        for i, row in enumerate(rows):
            scratch[i, : len(row)] = row
            scratch[i, len(row) :] = 0
        self.context.set(scratch, stream=self.stream)

    def propose(self, rows):
        with self.stream:
            self._stage(rows)
            score = self.context.astype(cp.float32) @ self.mix
            self.votes += score.argmax(axis=1)


def main(steps=100, batch=512, length=2048):
    proposer = NGramProposer(batch, length)
    rng = np.random.default_rng(3)
    for step in range(steps):
        n = 1024 + step
        proposer.propose(list(rng.integers(0, 32000, (batch, n), dtype=np.int32)))
    proposer.stream.synchronize()
    with proposer.stream:
        return cp.asnumpy(proposer.votes)


if __name__ == "__main__":
    print(main()[:4])
