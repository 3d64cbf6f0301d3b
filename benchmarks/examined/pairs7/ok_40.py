"""Image operators that share a base class with its own staging and ordering."""
import cupy as cp
import cupyx
import numpy as np

SHAPE = (1536, 1536)


class Operator:
    """Base of device operators: upload, apply, download."""

    upload_stream = cp.cuda.Stream(non_blocking=True)
    download_stream = cp.cuda.Stream(non_blocking=True)

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = cupyx.empty_pinned(SHAPE, np.float32)
        self.host_out = cupyx.empty_pinned(SHAPE, np.float32)
        self.x = cp.empty(SHAPE, cp.float32)
        self.y = cp.empty(SHAPE, cp.float32)
        self._up, self._run, self._down = (cp.cuda.Event(disable_timing=True) for _ in range(3))

    def apply(self):
        raise NotImplementedError

    def submit(self, image):
        self._up.synchronize()
        np.copyto(self.host_in, image)
        self.upload_stream.wait_event(self._run)
        self.x.set(self.host_in, stream=self.upload_stream)
        self._up.record(self.upload_stream)
        self.stream.wait_event(self._up)
        self.stream.wait_event(self._down)
        with self.stream:
            self.apply()
            self._run.record(self.stream)
        self.download_stream.wait_event(self._run)
        self.y.get(stream=self.download_stream, out=self.host_out, blocking=False)
        self._down.record(self.download_stream)

    @property
    def result(self):
        self._down.synchronize()
        return self.host_out


class Sobel(Operator):
    def apply(self):
        gx = cp.roll(self.x, -1, 1) - cp.roll(self.x, 1, 1)
        gy = cp.roll(self.x, -1, 0) - cp.roll(self.x, 1, 0)
        cp.hypot(gx, gy, out=self.y)


class Emboss(Operator):
    def apply(self):
        cp.subtract(cp.roll(self.x, (2, 2), (0, 1)), cp.roll(self.x, (-2, -2), (0, 1)), out=self.y)


def main():
    rng = np.random.default_rng(60)
    operators = [Sobel(), Emboss()]
    for _ in range(20):
        image = rng.random(SHAPE, dtype=np.float32)
        for op in operators:
            op.submit(image)
        print([float(op.result.mean()) for op in operators])


if __name__ == "__main__":
    main()
