"""Image stack deconvolution: N pinned slots, the stream is synchronized after every N frames."""
import numpy as np
import cupy as cp
import cupyx


class RichardsonLucy:
    def __init__(self, psf, shape, iterations=8):
        self.shape, self.iterations = shape, iterations
        pad = cp.zeros(shape, cp.float32)
        pad[: psf.shape[0], : psf.shape[1]] = psf
        self.otf = cp.fft.rfft2(cp.roll(pad, (-(psf.shape[0] // 2), -(psf.shape[1] // 2)), (0, 1)))

    def _blur(self, x, otf):
        return cp.fft.irfft2(cp.fft.rfft2(x) * otf, s=self.shape)

    def __call__(self, image):
        x = cp.full_like(image, image.mean())
        for _ in range(self.iterations):
            ratio = image / (self._blur(x, self.otf) + 1e-6)
            x = x * self._blur(ratio, self.otf.conj())
        return x


class StackProcessor:
    SLOTS = 4

    def __init__(self, deconvolve, shape):
        self.deconvolve = deconvolve
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.get_current_stream().synchronize()
        self.inbox = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(self.SLOTS)]
        self.outbox = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(self.SLOTS)]

    def process(self, frames):
        filled = 0
        for frame in frames:
            self.inbox[filled][...] = frame
            with self.stream as s:
                image = cp.empty(self.inbox[filled].shape, cp.float32)
                image.set(self.inbox[filled], stream=s)
                result = self.deconvolve(image).astype(cp.float32, copy=False)
                result.get(stream=s, out=self.outbox[filled], blocking=False)
            filled += 1
            if filled == self.SLOTS:
                self.stream.synchronize()
                yield from (self.outbox[i].copy() for i in range(filled))
                filled = 0
        self.stream.synchronize()
        yield from (self.outbox[i].copy() for i in range(filled))


def main():
    shape = (1024, 1024)
    g = cp.exp(-cp.linspace(-2, 2, 15) ** 2).astype(cp.float32)
    psf = g[:, None] * g[None, :]
    processor = StackProcessor(RichardsonLucy(psf / psf.sum(), shape), shape)
    rng = np.random.default_rng(1)
    frames = (rng.random(shape, dtype=np.float32) for _ in range(18))
    print(sum(float(f.mean()) for f in processor.process(frames)))


if __name__ == "__main__":
    main()
