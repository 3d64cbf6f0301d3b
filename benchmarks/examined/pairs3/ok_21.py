"""Spectrometer with an nvmath FFT plan; integration runs on a lower priority stream."""
import cupy as cp
import numpy as np
import nvmath


class Spectrometer:
    def __init__(self, channels=4096, spectra=2048):
        self.fft_stream = cp.cuda.Stream(non_blocking=True, priority=-1)
        self.int_stream = cp.cuda.Stream(non_blocking=True)
        with self.fft_stream:
            self.block = cp.zeros((spectra, channels), cp.complex64)
        with self.int_stream:
            self.power = cp.zeros(channels, cp.float64)
        self.fft = nvmath.fft.FFT(self.block, axes=[1], stream=self.fft_stream)
        self.fft.plan(stream=self.fft_stream)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.fft_stream.synchronize()
        self.int_stream.synchronize()
        self.fft.free()

    def integrate(self, voltages):
        with self.fft_stream:
            self.block[...] = cp.asarray(voltages)
            spectra = self.fft.execute(stream=self.fft_stream)
            transformed = self.fft_stream.record()
        with self.int_stream:
            self.int_stream.wait_event(transformed)
            self.power += (cp.abs(spectra) ** 2).sum(axis=0, dtype=cp.float64)
            integrated = self.int_stream.record()
        self.fft_stream.wait_event(integrated)

    def read(self):
        with self.int_stream:
            return self.power.get()


def main(blocks=100):
    rng = np.random.default_rng(8)
    with Spectrometer() as spec:
        for _ in range(blocks):
            v = rng.standard_normal((2048, 4096, 2), dtype=np.float32).view(np.complex64)[..., 0]
            spec.integrate(v)
        print(spec.read().argmax())


if __name__ == "__main__":
    main()
