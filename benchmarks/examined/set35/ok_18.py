"""Block-wise image correction with PyCUDA: upload, kernel and download on three streams."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void correct(const unsigned short* raw, const float* gain, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = gain[i] * (float)raw[i];
}
"""


class Lane:
    """Device and page-locked memory of one block plus the events between its stages."""

    def __init__(self, pixels: int):
        self.host_in = drv.pagelocked_empty(pixels, np.uint16)
        self.host_out = drv.pagelocked_empty(pixels, np.float32)
        self.raw = drv.mem_alloc(self.host_in.nbytes)
        self.out = drv.mem_alloc(self.host_out.nbytes)
        self.uploaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.corrected = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.downloaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.index = None


class Corrector:
    def __init__(self, gain: np.ndarray, lanes: int = 3):
        self.pixels = gain.size
        module = SourceModule(SOURCE)
        self.kernel = module.get_function("correct")
        self.gain = drv.mem_alloc(4 * self.pixels)
        drv.memcpy_htod(self.gain, np.ascontiguousarray(gain, np.float32))
        drv.Context.synchronize()
        self.upload, self.compute, self.download = drv.Stream(), drv.Stream(), drv.Stream()
        self.lanes = [Lane(self.pixels) for _ in range(lanes)]
        self.grid = ((self.pixels + 255) // 256, 1)

    def _collect(self, lane: Lane, results: dict) -> None:
        if lane.index is None:
            return
        lane.downloaded.synchronize()
        results[lane.index] = float(lane.host_out.mean())
        lane.index = None

    def _start(self, lane: Lane, index: int, frame: np.ndarray) -> None:
        lane.host_in[:] = frame.reshape(-1)
        drv.memcpy_htod_async(lane.raw, lane.host_in, self.upload)
        lane.uploaded.record(self.upload)
        self.compute.wait_for_event(lane.uploaded)
        self.kernel(lane.raw, self.gain, lane.out, np.int32(self.pixels),
                    block=(256, 1, 1), grid=self.grid, stream=self.compute)
        lane.corrected.record(self.compute)
        self.download.wait_for_event(lane.corrected)
        drv.memcpy_dtoh_async(lane.host_out, lane.out, self.download)
        lane.downloaded.record(self.download)
        lane.index = index

    def run(self, frames) -> dict:
        results: dict = {}
        for index, frame in enumerate(frames):
            lane = self.lanes[index % len(self.lanes)]
            self._collect(lane, results)
            self._start(lane, index, frame)
        for lane in self.lanes:
            self._collect(lane, results)
        return results


def frames(count: int, shape):
    rng = np.random.default_rng(5)
    for _ in range(count):
        yield rng.integers(0, 4096, size=shape, dtype=np.uint16)


def main() -> None:
    shape = (2048, 2048)
    corrector = Corrector(np.linspace(0.5, 1.5, shape[0] * shape[1], dtype=np.float32))
    results = corrector.run(frames(24, shape))
    print([round(results[i], 2) for i in sorted(results)])


if __name__ == "__main__":
    main()
