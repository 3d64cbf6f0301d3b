"""Triple-buffered Numba pipeline: upload, compute and download streams."""
import numpy as np
from numba import cuda


@cuda.jit
def magnitude(re, im, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (re[i] * re[i] + im[i] * im[i]) ** 0.5


class Slot:
    def __init__(self, n: int):
        self.h_re = cuda.pinned_array(n, dtype=np.float32)
        self.h_im = cuda.pinned_array(n, dtype=np.float32)
        self.h_out = cuda.pinned_array(n, dtype=np.float32)
        self.d_re = cuda.device_array(n, dtype=np.float32)
        self.d_im = cuda.device_array(n, dtype=np.float32)
        self.d_out = cuda.device_array(n, dtype=np.float32)
        self.uploaded = cuda.event(timing=False)
        self.computed = cuda.event(timing=False)
        self.downloaded = cuda.event(timing=False)
        self.tag = None

    def collect(self):
        self.downloaded.synchronize()
        tag, self.tag = self.tag, None
        return tag, self.h_out.copy()


class MagnitudePipeline:
    def __init__(self, n: int, depth: int = 3):
        self.n = n
        self.slots = [Slot(n) for _ in range(depth)]
        self.up, self.comp, self.down = cuda.stream(), cuda.stream(), cuda.stream()

    def _submit(self, slot: Slot, tag: int, z: np.ndarray) -> None:
        slot.h_re[:] = z.real
        slot.h_im[:] = z.imag
        slot.d_re.copy_to_device(slot.h_re, stream=self.up)
        slot.d_im.copy_to_device(slot.h_im, stream=self.up)
        slot.uploaded.record(self.up)
        slot.uploaded.wait(self.comp)
        magnitude[(self.n + 255) // 256, 256, self.comp](slot.d_re, slot.d_im, slot.d_out)
        slot.computed.record(self.comp)
        slot.computed.wait(self.down)
        slot.d_out.copy_to_host(slot.h_out, stream=self.down)
        slot.downloaded.record(self.down)
        slot.tag = tag

    def run(self, frames):
        count = 0
        for z in frames:
            slot = self.slots[count % len(self.slots)]
            if slot.tag is not None:
                yield slot.collect()
            self._submit(slot, count, z)
            count += 1
        for k in range(len(self.slots)):
            slot = self.slots[(count + k) % len(self.slots)]
            if slot.tag is not None:
                yield slot.collect()


def main():
    rng = np.random.default_rng(0)
    n = 1 << 18
    frames = ((rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64) for _ in range(32))
    for tag, mag in MagnitudePipeline(n).run(frames):
        print(tag, float(mag.max()))


if __name__ == "__main__":
    main()
