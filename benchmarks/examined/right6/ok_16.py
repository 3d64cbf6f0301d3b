import numpy as np
from numba import cuda


@cuda.jit
def blend(dst, a, b, t):
    i, j = cuda.grid(2)
    if i < dst.shape[0] and j < dst.shape[1]:
        dst[i, j] = a[i, j] * (1 - t) + b[i, j] * t


class CrossFade:
    """Keeps two key frames resident and renders frames between them."""

    def __init__(self, height, width):
        self.stream = cuda.stream()
        self.shape = (height, width)
        self._scratch = None
        self._host = cuda.pinned_array(self.shape, np.float32)

    @property
    def scratch(self):
        if self._scratch is None:
            self._scratch = cuda.device_array(self.shape, np.float32, stream=self.stream)
        return self._scratch

    def render(self, a, b, steps):
        blocks = ((self.shape[0] + 15) // 16, (self.shape[1] + 15) // 16)
        with cuda.pinned(a, b):
            with self.stream.auto_synchronize() as stream:
                da = cuda.to_device(a, stream=stream)
                db = cuda.to_device(b, stream=stream)
            for k in range(steps):
                with self.stream.auto_synchronize() as stream:
                    blend[blocks, (16, 16), stream](self.scratch, da, db, k / steps)
                    self.scratch.copy_to_host(self._host, stream=stream)
                yield self._host.copy()


if __name__ == "__main__":
    fade = CrossFade(720, 1280)
    first = np.zeros((720, 1280), np.float32)
    last = np.ones((720, 1280), np.float32)
    print([round(float(f.mean()), 2) for f in fade.render(first, last, 5)])
