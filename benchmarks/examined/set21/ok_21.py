"""Mixed stage of a batch pipeline: host-built descriptors drive a gather kernel."""
import numpy as np
from numba import cuda


@cuda.jit
def gather_rows(src, offsets, lengths, dst):
    sample = cuda.blockIdx.x
    pos = cuda.threadIdx.x
    while pos < lengths[sample]:
        dst[sample, pos] = src[offsets[sample] + pos]
        pos += cuda.blockDim.x


class MakeContiguousStage:
    """Copies ragged samples into one dense batch; runs on the stage's own stream."""

    def __init__(self, batch_size: int, max_len: int):
        self.batch_size = batch_size
        self.stream = cuda.stream()
        self.finished = cuda.event(timing=False)
        self.invocations = 0
        self.offsets_host = cuda.pinned_array(batch_size, dtype=np.int64)
        self.lengths_host = cuda.pinned_array(batch_size, dtype=np.int32)
        self.offsets_dev = cuda.device_array(batch_size, dtype=np.int64)
        self.lengths_dev = cuda.device_array(batch_size, dtype=np.int32)
        self.output = cuda.device_array((batch_size, max_len), dtype=np.float32)

    def _wait_previous(self):
        if self.invocations:
            self.finished.synchronize()
        self.invocations += 1

    def run(self, flat, lengths):
        self._wait_previous()
        np.copyto(self.lengths_host, lengths)
        self.offsets_host[0] = 0
        np.cumsum(self.lengths_host[:-1], out=self.offsets_host[1:])
        self.offsets_dev.copy_to_device(self.offsets_host, stream=self.stream)
        self.lengths_dev.copy_to_device(self.lengths_host, stream=self.stream)
        gather_rows[self.batch_size, 128, self.stream](
            flat, self.offsets_dev, self.lengths_dev, self.output
        )
        self.finished.record(self.stream)
        return self.output, self.finished


class ReduceStage:
    """Per-sample means, downloaded for the host side of the pipeline."""

    def __init__(self, batch_size: int):
        self.stream = cuda.stream()
        self.means_dev = cuda.device_array(batch_size, dtype=np.float32)
        self.means_host = cuda.pinned_array(batch_size, dtype=np.float32)

    def run(self, kernel, batch, ready):
        ready.wait(stream=self.stream)
        kernel[batch.shape[0], 128, self.stream](batch, self.means_dev)
        self.means_dev.copy_to_host(self.means_host, stream=self.stream)
        self.stream.synchronize()
        return self.means_host.copy()


@cuda.jit
def row_mean(batch, out):
    row = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        acc = 0.0
        for i in range(batch.shape[1]):
            acc += batch[row, i]
        out[row] = acc / batch.shape[1]


def run_epoch(samples, batch_size, max_len):
    gather = MakeContiguousStage(batch_size, max_len)
    reduce = ReduceStage(batch_size)
    flat = cuda.to_device(np.concatenate(samples).astype(np.float32))
    lengths = np.array([len(s) for s in samples[:batch_size]], dtype=np.int32)
    results = []
    for step in range(8):
        batch, ready = gather.run(flat, np.roll(lengths, step).clip(max=max_len))
        results.append(reduce.run(row_mean, batch, ready))
    return results
