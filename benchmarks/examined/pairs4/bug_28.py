"""Sonar beam images: formed on one CuPy stream, accumulated on another."""
import cupy as cp
import numpy as np

_form = cp.ElementwiseKernel(
    "raw float32 echo, int32 samples, int32 beams, float32 slope",
    "float32 image",
    """
    int beam = i / samples, t = i % samples;
    float acc = 0.f;
    for (int e = 0; e < 16; ++e) {
        int s = t + (int)(slope * e * (beam - beams / 2));
        if (s >= 0 && s < samples) acc += echo[e * samples + s];
    }
    image = acc * acc;
    """,
    "form_beams",
)


class SonarDisplay:
    def __init__(self, beams=256, samples=4096):
        self.beams, self.samples = beams, samples
        self.form_stream = cp.cuda.Stream(non_blocking=True)
        self.view_stream = cp.cuda.Stream(non_blocking=True)
        self.waterfall = cp.zeros((beams, samples), cp.float32)
        cp.cuda.Device().synchronize()

    def ping(self, echo):
        with self.form_stream as forming:
            device_echo = cp.asarray(echo)
            image = cp.empty((self.beams, self.samples), cp.float32)
            _form(device_echo, np.int32(self.samples), np.int32(self.beams), np.float32(0.3), image)
            formed = forming.record()
        with self.view_stream as viewing:
            viewing.wait_event(formed)
            self.waterfall *= np.float32(0.97)
            self.waterfall += cp.log1p(image)

    def snapshot(self):
        self.view_stream.synchronize()
        return cp.asnumpy(self.waterfall)


def echoes(count, samples):
    rng = np.random.default_rng(9)
    for _ in range(count):
        yield rng.standard_normal((16, samples)).astype(np.float32)


def main():
    display = SonarDisplay()
    for echo in echoes(500, display.samples):
        display.ping(echo)
    print(display.snapshot().mean())


if __name__ == "__main__":
    main()
