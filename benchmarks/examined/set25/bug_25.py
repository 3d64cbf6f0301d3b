"""Stage executor: the operator gathers samples through a descriptor table."""
import numpy as np
from numba import cuda

MAX_SAMPLES = 64


@cuda.jit
def gather_contiguous(pool, desc, out):
    sample = cuda.blockIdx.x
    offset = desc[sample, 0]
    length = desc[sample, 1]
    dst = desc[sample, 2]
    for i in range(cuda.threadIdx.x, length, cuda.blockDim.x):
        out[dst + i] = pool[offset + i]


class MakeContiguous:
    """Copies scattered samples of one batch into a contiguous output."""

    def __init__(self, stream):
        self.stream = stream
        self.h_desc = cuda.pinned_array((MAX_SAMPLES, 3), dtype=np.int64)
        self.d_desc = cuda.device_array((MAX_SAMPLES, 3), dtype=np.int64, stream=stream)

    def run(self, pool, lengths, offsets, out):
        dst = 0
        for i, (off, length) in enumerate(zip(offsets, lengths)):
            self.h_desc[i, 0] = off
            self.h_desc[i, 1] = length
            self.h_desc[i, 2] = dst
            dst += length
        self.d_desc.copy_to_device(self.h_desc, stream=self.stream)
        gather_contiguous[len(lengths), 128, self.stream](pool, self.d_desc, out)
        return dst


class MixedStage:
    def __init__(self, pool_size, depth):
        self.stream = cuda.stream()
        self.op = MakeContiguous(self.stream)
        self.pool = cuda.to_device(
            np.arange(pool_size, dtype=np.float32), stream=self.stream)
        self.outputs = [
            cuda.device_array(pool_size, dtype=np.float32, stream=self.stream)
            for _ in range(depth)]

    def run_iteration(self, index, lengths, offsets):
        out = self.outputs[index]
        return self.op.run(self.pool, lengths, offsets, out)


def main():
    rng = np.random.default_rng(0)
    depth = 8
    stage = MixedStage(1 << 22, depth)
    sizes = []
    for it in range(depth):
        lengths = rng.integers(1000, 4000, MAX_SAMPLES)
        offsets = rng.integers(0, (1 << 22) - 4000, MAX_SAMPLES)
        sizes.append(stage.run_iteration(it, lengths, offsets))
    stage.stream.synchronize()
    for it in range(depth):
        host = stage.outputs[it].copy_to_host()
        print(it, host[: sizes[it]].sum())


if __name__ == "__main__":
    main()
