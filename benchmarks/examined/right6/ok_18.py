import queue

import numpy as np
from numba import cuda


@cuda.jit
def threshold(img, level, mask):
    i = cuda.grid(1)
    if i < img.size:
        mask[i] = 1 if img[i] > level else 0


class MaskPipeline:
    """Several images in flight; finished slots are announced through a queue."""

    def __init__(self, pixels, depth=4):
        self.pixels = pixels
        self.streams = [cuda.stream() for _ in range(depth)]
        self.h_img = [cuda.pinned_array(pixels, np.float32) for _ in range(depth)]
        self.h_mask = [cuda.pinned_array(pixels, np.uint8) for _ in range(depth)]
        self.d_img = [cuda.device_array(pixels, np.float32) for _ in range(depth)]
        self.d_mask = [cuda.device_array(pixels, np.uint8) for _ in range(depth)]
        self.finished = queue.Queue()
        self.idle = list(range(depth))

    def _notify(self, stream, status, slot):
        self.finished.put((slot, status))

    def _submit(self, slot, image, level):
        s = self.streams[slot]
        self.h_img[slot][:] = image
        self.d_img[slot].copy_to_device(self.h_img[slot], stream=s)
        threshold[(self.pixels + 255) // 256, 256, s](self.d_img[slot], level, self.d_mask[slot])
        self.d_mask[slot].copy_to_host(self.h_mask[slot], stream=s)
        s.add_callback(self._notify, slot)

    def run(self, images, level):
        running = 0
        for image in images:
            if not self.idle:
                yield self._collect()
                running -= 1
            self._submit(self.idle.pop(), image, level)
            running += 1
        while running:
            yield self._collect()
            running -= 1

    def _collect(self):
        slot, status = self.finished.get()
        area = int(self.h_mask[slot].sum())
        self.idle.append(slot)
        return area


if __name__ == "__main__":
    pipe = MaskPipeline(1 << 20)
    frames = (np.random.rand(1 << 20).astype(np.float32) for _ in range(20))
    print(sorted(pipe.run(frames, np.float32(0.9))))
