"""Two antennas transformed on separate streams, then correlated."""
import numpy as np
import cupy as cp
from cupyx.scipy import fft as cufft
from cupyx.scipy.fft import get_fft_plan


class Channelizer:
    """FFT stage bound to one stream, with its own plan."""

    def __init__(self, nblocks, nchan):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.samples = cp.zeros((nblocks, nchan), dtype=cp.complex64)
            self.spectra = cp.zeros((nblocks, nchan), dtype=cp.complex64)
            self.plan = get_fft_plan(self.samples, axes=(1,))
        self.stream.synchronize()
        self.done = cp.cuda.Event(disable_timing=True)

    def process(self, data, consumed):
        self.stream.wait_event(consumed)
        with self.stream:
            self.samples.set(data, stream=self.stream)
            with self.plan:
                out = cufft.fft(self.samples, axis=1)
            cp.copyto(self.spectra, out)
        self.done.record(self.stream)


class Correlator:
    def __init__(self, nblocks, nchan):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.antennas = [Channelizer(nblocks, nchan) for _ in range(2)]
        with self.stream:
            self.visibility = cp.zeros((nchan,), dtype=cp.complex64)
        self.consumed = cp.cuda.Event(disable_timing=True)
        self.consumed.record(self.stream)

    def integrate(self, block0, block1):
        for ant, block in zip(self.antennas, (block0, block1)):
            ant.process(block, self.consumed)
        for ant in self.antennas:
            self.stream.wait_event(ant.done)
        a, b = self.antennas
        with self.stream:
            self.visibility += (a.spectra * b.spectra.conj()).sum(axis=0)
        self.consumed.record(self.stream)

    def result(self):
        with self.stream:
            vis = cp.asnumpy(self.visibility)
        return vis


def main(nblocks=64, nchan=4096, nint=20):
    rng = np.random.default_rng(3)
    corr = Correlator(nblocks, nchan)
    for _ in range(nint):
        blocks = rng.standard_normal((2, nblocks, nchan)).astype(np.complex64)
        corr.integrate(blocks[0], blocks[1])
    print(np.abs(corr.result()).max())


if __name__ == "__main__":
    main()
