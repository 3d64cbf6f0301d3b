"""Zero-copy sequence lengths: the scheduler edits host memory that kernels can see."""
import numpy as np
from numba import cuda


@cuda.jit
def masked_sum(lengths, kv, out):
    row = cuda.blockIdx.x
    n = lengths[row]
    acc = 0.0
    for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        acc += kv[row, j]
    cuda.atomic.add(out, row, acc)


class SequenceState:
    def __init__(self, max_reqs, max_len):
        self.lengths = cuda.mapped_array(max_reqs, dtype=np.int32)
        self.lengths[:] = 0
        self.max_len = max_len

    def extend(self, counts):
        for i, c in enumerate(counts):
            self.lengths[i] = min(self.lengths[i] + c, self.max_len)

    def reset(self, i):
        self.lengths[i] = 0


class Worker:
    def __init__(self, max_reqs=128, max_len=4096):
        self.stream = cuda.stream()
        self.state = SequenceState(max_reqs, max_len)
        self.kv = cuda.to_device(np.random.rand(max_reqs, max_len).astype(np.float32), stream=self.stream)
        self.out = cuda.to_device(np.zeros(max_reqs, dtype=np.float32), stream=self.stream)
        self.max_reqs = max_reqs

    def step(self, counts):
        self.state.extend(counts)
        masked_sum[self.max_reqs, 256, self.stream](self.state.lengths, self.kv, self.out)


def main(steps=100):
    worker = Worker()
    for step in range(steps):
        worker.step([1 + step % 3] * 128)
        if step % 10 == 9:
            worker.state.reset(step % 128)
    worker.stream.synchronize()
    return worker.out.copy_to_host().mean()


if __name__ == "__main__":
    print(main())
