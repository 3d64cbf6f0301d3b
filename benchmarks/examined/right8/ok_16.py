"""Numba stencil service: pinned slots recycled through events."""
import numpy as np
from numba import cuda


@cuda.jit
def stencil(src, dst):
    i, j = cuda.grid(2)
    h, w = src.shape
    if 0 < i < h - 1 and 0 < j < w - 1:
        dst[i, j] = 0.2 * (src[i, j] + src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1])


class Slot:
    def __init__(self, shape):
        self.host_in = cuda.pinned_array(shape, np.float32)
        self.host_out = cuda.pinned_array(shape, np.float32)
        self.dev_in = cuda.device_array(shape, np.float32)
        self.dev_out = cuda.to_device(np.zeros(shape, np.float32))
        self.stream = cuda.stream()
        self.finished = cuda.event(timing=False)
        self.tag = None

    def launch(self, tag, image):
        self.tag = tag
        self.host_in[:] = image
        self.dev_in.copy_to_device(self.host_in, stream=self.stream)
        grid = tuple((s + 15) // 16 for s in image.shape)
        stencil[grid, (16, 16), self.stream](self.dev_in, self.dev_out)
        self.dev_out.copy_to_host(self.host_out, stream=self.stream)
        self.finished.record(self.stream)

    def collect(self):
        if self.tag is None:
            return None
        self.finished.synchronize()
        tag, self.tag = self.tag, None
        return tag, self.host_out.copy()


class StencilService:
    def __init__(self, shape, depth=3):
        self.slots = [Slot(shape) for _ in range(depth)]

    def map(self, images):
        for k, image in enumerate(images):
            slot = self.slots[k % len(self.slots)]
            done = slot.collect()
            slot.launch(k, image)
            if done is not None:
                yield done
        for slot in self.slots:
            done = slot.collect()
            if done is not None:
                yield done


if __name__ == "__main__":
    svc = StencilService((512, 512))
    imgs = (np.full((512, 512), k, np.float32) for k in range(11))
    for tag, out in svc.map(imgs):
        print(tag, out[256, 256])
