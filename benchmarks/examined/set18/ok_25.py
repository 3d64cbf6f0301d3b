import cupy as cp
import cupyx
import nvmath
import numpy as np


class SpectralFilter:
    """Forward FFT, multiplication by a mask and inverse FFT with stateful plans."""

    def __init__(self, shape, axes=(1, 2)):
        self.fft_stream = cp.cuda.Stream(non_blocking=True)
        self.mask_stream = cp.cuda.Stream(non_blocking=True)
        self.operand_read = None

        with self.fft_stream:
            self.operand = cp.zeros(shape, dtype=cp.complex64)
            self.spectrum = cp.zeros(shape, dtype=cp.complex64)
        options = {"blocking": "auto"}
        self.forward = nvmath.fft.FFT(
            self.operand, axes=axes, options=options, stream=self.fft_stream
        )
        self.inverse = nvmath.fft.FFT(
            self.spectrum, axes=axes, options=options, stream=self.fft_stream
        )
        self.forward.plan(stream=self.fft_stream)
        self.inverse.plan(stream=self.fft_stream)

        with self.mask_stream:
            self.mask = self._gaussian(shape[1:])
        self.mask_stream.wait_event(self.fft_stream.record())

    @staticmethod
    def _gaussian(shape, sigma=0.1):
        ky = cp.fft.fftfreq(shape[0])[:, None]
        kx = cp.fft.fftfreq(shape[1])[None, :]
        return cp.exp(-(kx**2 + ky**2) / (2 * sigma**2)).astype(cp.complex64)

    def load(self, host):
        """Replaces the contents of the operand in place."""
        if self.operand_read is not None:
            self.fft_stream.wait_event(self.operand_read)
        self.operand.set(host, stream=self.fft_stream)

    def apply(self, host_in, host_out):
        self.load(host_in)
        spectrum = self.forward.execute(
            direction=nvmath.fft.FFTDirection.FORWARD, stream=self.fft_stream
        )
        transformed = self.fft_stream.record()

        self.mask_stream.wait_event(transformed)
        with self.mask_stream:
            cp.multiply(spectrum, self.mask, out=self.spectrum)
        masked = self.mask_stream.record()

        self.fft_stream.wait_event(masked)
        result = self.inverse.execute(
            direction=nvmath.fft.FFTDirection.INVERSE, stream=self.fft_stream
        )
        with self.fft_stream:
            result /= self.mask.size
            result.get(out=host_out, stream=self.fft_stream, blocking=False)
        self.operand_read = self.fft_stream.record()
        return self.operand_read

    def close(self):
        self.forward.free()
        self.inverse.free()


def main(batches=8, shape=(16, 512, 512)):
    rng = np.random.default_rng(1)
    inputs = [cupyx.empty_pinned(shape, dtype=np.complex64) for _ in range(2)]
    outputs = [cupyx.empty_pinned(shape, dtype=np.complex64) for _ in range(2)]
    filt = SpectralFilter(shape)

    in_flight = [None, None]
    energy = 0.0
    for b in range(batches + 2):
        slot = b % 2
        if in_flight[slot] is not None:
            in_flight[slot].synchronize()
            energy += float(np.vdot(outputs[slot], outputs[slot]).real)
            in_flight[slot] = None
        if b < batches:
            inputs[slot][...] = rng.standard_normal(shape)
            in_flight[slot] = filt.apply(inputs[slot], outputs[slot])

    filt.close()
    print("energy", energy)


if __name__ == "__main__":
    main()
