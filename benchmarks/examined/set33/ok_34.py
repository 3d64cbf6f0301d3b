import numpy as np
import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

_SOURCE = """
__global__ void accumulate(const float *chunk, int n, float *sums, int bins)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&sums[i % bins], chunk[i]);
}
"""


class PinnedHalf:
    def __init__(self, elems: int):
        self.array = cuda.pagelocked_empty(elems, np.float32)
        self.sent = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.in_flight = False

    def wait(self) -> None:
        if self.in_flight:
            self.sent.synchronize()
            self.in_flight = False


class ChunkedAccumulator:
    """Folds a long host signal into a short periodic profile."""

    def __init__(self, bins: int, chunk: int = 1 << 20):
        if chunk % bins:
            raise ValueError("chunk must be a multiple of bins")
        self.bins, self.chunk = bins, chunk
        self.kernel = SourceModule(_SOURCE).get_function("accumulate")
        self.stream = cuda.Stream()
        self.halves = [PinnedHalf(chunk) for _ in range(2)]
        self.d_chunk = cuda.mem_alloc(chunk * 4)
        self.d_sums = cuda.mem_alloc(bins * 4)
        self.turn = 0

    def _push(self, data: np.ndarray) -> None:
        half = self.halves[self.turn]
        self.turn ^= 1
        half.wait()
        half.array[: data.size] = data
        cuda.memcpy_htod_async(self.d_chunk, half.array[: data.size], self.stream)
        half.sent.record(self.stream)
        half.in_flight = True
        self.kernel(
            self.d_chunk,
            np.int32(data.size),
            self.d_sums,
            np.int32(self.bins),
            block=(256, 1, 1),
            grid=(120, 1),
            stream=self.stream,
        )

    def fold(self, signal: np.ndarray) -> np.ndarray:
        cuda.memset_d32_async(self.d_sums, 0, self.bins, self.stream)
        for start in range(0, signal.size, self.chunk):
            self._push(signal[start : start + self.chunk].astype(np.float32, copy=False))
        result = cuda.pagelocked_empty(self.bins, np.float32)
        cuda.memcpy_dtoh_async(result, self.d_sums, self.stream)
        self.stream.synchronize()
        return np.array(result)


if __name__ == "__main__":
    acc = ChunkedAccumulator(bins=1024)
    t = np.arange(10_000_000, dtype=np.float32)
    profile = acc.fold(np.sin(t * (2 * np.pi / 1024)).astype(np.float32))
    print(profile.min(), profile.max())
