import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_module = SourceModule(
    """
__global__ void demodulate(const float2 *iq, float *audio, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float2 a = iq[i], b = iq[i + 1];
        audio[i] = atan2f(b.y * a.x - b.x * a.y, b.x * a.x + b.y * a.y);
    }
}
"""
)


class Block:
    def __init__(self, n: int) -> None:
        self.iq_host = drv.pagelocked_empty(n + 1, np.complex64)
        self.audio_host = drv.pagelocked_empty(n, np.float32)
        self.iq = drv.mem_alloc(self.iq_host.nbytes)
        self.audio = drv.mem_alloc(self.audio_host.nbytes)
        self.loaded = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.busy = False


class FmDemodulator:
    def __init__(self, n: int, depth: int = 3) -> None:
        self.n = n
        self.copier = drv.Stream()
        self.worker = drv.Stream()
        self.blocks = [Block(n) for _ in range(depth)]
        self.kernel = _module.get_function("demodulate")
        self.cursor = 0

    def _collect(self, block: Block, sink: list) -> None:
        if block.busy:
            block.done.synchronize()
            sink.append(block.audio_host.copy())
            block.busy = False

    def push(self, samples: np.ndarray, sink: list) -> None:
        block = self.blocks[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.blocks)
        self._collect(block, sink)
        block.iq_host[:] = samples
        drv.memcpy_htod_async(block.iq, block.iq_host, self.copier)
        block.loaded.record(self.copier)
        self.worker.wait_for_event(block.loaded)
        self.kernel(
            block.iq,
            block.audio,
            np.int32(self.n),
            block=(256, 1, 1),
            grid=((self.n + 255) // 256, 1),
            stream=self.worker,
        )
        drv.memcpy_dtoh_async(block.audio_host, block.audio, self.worker)
        block.done.record(self.worker)
        block.busy = True

    def finish(self, sink: list) -> None:
        for k in range(len(self.blocks)):
            self._collect(self.blocks[(self.cursor + k) % len(self.blocks)], sink)


def main() -> None:
    n = 1 << 18
    demod = FmDemodulator(n)
    audio: list[np.ndarray] = []
    phase = 0.0
    for _ in range(40):
        steps = phase + 0.05 * np.arange(n + 1)
        demod.push(np.exp(1j * steps).astype(np.complex64), audio)
        phase = steps[-1]
    demod.finish(audio)
    print(len(audio), np.concatenate(audio).mean())


if __name__ == "__main__":
    main()
