"""Three-stage numba pipeline: upload, filter, download, over a ring of slots."""
import numpy as np
from numba import cuda

N = 1 << 20


@cuda.jit
def smooth(src, dst):
    i = cuda.grid(1)
    if i < src.size:
        left = src[i - 1] if i > 0 else src[i]
        right = src[i + 1] if i + 1 < src.size else src[i]
        dst[i] = 0.25 * left + 0.5 * src[i] + 0.25 * right


class Slot:
    def __init__(self):
        self.h_in = cuda.pinned_array(N, np.float32)
        self.h_out = cuda.pinned_array(N, np.float32)
        self.d_in = cuda.device_array(N, np.float32)
        self.d_out = cuda.device_array(N, np.float32)
        self.uploaded = cuda.event(timing=False)
        self.filtered = cuda.event(timing=False)
        self.downloaded = cuda.event(timing=False)
        self.busy = False


class Pipeline:
    def __init__(self, depth=3):
        self.up = cuda.stream()
        self.compute = cuda.stream()
        self.down = cuda.stream()
        self.slots = [Slot() for _ in range(depth)]
        self.head = 0

    def submit(self, block):
        """Start one block; returns the block that used the slot before, if any."""
        slot = self.slots[self.head]
        self.head = (self.head + 1) % len(self.slots)
        finished = self._retire(slot)

        slot.h_in[:] = block
        slot.d_in.copy_to_device(slot.h_in, stream=self.up)
        slot.uploaded.record(self.up)

        slot.uploaded.wait(self.compute)
        smooth[(N + 255) // 256, 256, self.compute](slot.d_in, slot.d_out)
        slot.filtered.record(self.compute)

        slot.filtered.wait(self.down)
        slot.d_out.copy_to_host(slot.h_out, stream=self.down)
        slot.downloaded.record(self.down)
        slot.busy = True
        return finished

    def _retire(self, slot):
        if not slot.busy:
            return None
        slot.downloaded.synchronize()
        slot.busy = False
        return slot.h_out.copy()

    def drain(self):
        for k in range(len(self.slots)):
            out = self._retire(self.slots[(self.head + k) % len(self.slots)])
            if out is not None:
                yield out


def main():
    rng = np.random.default_rng(0)
    pipe = Pipeline()
    means = []
    for _ in range(12):
        done = pipe.submit(rng.normal(size=N).astype(np.float32))
        if done is not None:
            means.append(float(done.mean()))
    means.extend(float(out.mean()) for out in pipe.drain())
    print(means)


if __name__ == "__main__":
    main()
