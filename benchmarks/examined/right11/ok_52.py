from __future__ import annotations

from typing import Iterator

import cupy as cp
import cupyx
import numpy as np
import nvmath


class Channelizer:
    """Streams blocks through one stateful FFT and averages their power."""

    def __init__(self, rows: int, n: int) -> None:
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.staging = [cupyx.empty_pinned((rows, n), dtype=np.complex64) for _ in range(2)]
        self.uploaded: list[cp.cuda.Event | None] = [None, None]
        self.released: list[cp.cuda.Event | None] = [None, None]
        with self.compute:
            self.blocks = [cp.zeros((rows, n), dtype=cp.complex64) for _ in range(2)]
            self.power = cp.zeros(n, dtype=cp.float32)
            self.upload.wait_event(self.compute.record())
        self.count = 0

    def _fill(self, slot: int, samples: np.ndarray) -> cp.ndarray:
        if self.uploaded[slot] is not None:
            self.uploaded[slot].synchronize()
        self.staging[slot][...] = samples
        if self.released[slot] is not None:
            self.upload.wait_event(self.released[slot])
        self.blocks[slot].set(self.staging[slot], stream=self.upload)
        self.uploaded[slot] = self.upload.record()
        return self.blocks[slot]

    def process(self, source: Iterator[np.ndarray]) -> np.ndarray:
        with nvmath.fft.FFT(self.blocks[0], axes=[1], stream=self.compute) as fft:
            fft.plan(stream=self.compute)
            for samples in source:
                slot = self.count % 2
                block = self._fill(slot, samples)
                self.compute.wait_event(self.uploaded[slot])
                fft.reset_operand(block, stream=self.compute)
                spectrum = fft.execute(direction=nvmath.fft.FFTDirection.FORWARD, stream=self.compute)
                self.released[slot] = self.compute.record()
                with self.compute:
                    self.power += (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
                self.count += 1
            self.compute.synchronize()
        with self.compute:
            return (self.power / max(self.count, 1)).get()


def noise(blocks: int, rows: int, n: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(9)
    tone = np.exp(2j * np.pi * 0.125 * np.arange(n)).astype(np.complex64)
    for _ in range(blocks):
        yield tone + (rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))).astype(np.complex64)


if __name__ == "__main__":
    spectrum = Channelizer(64, 4096).process(noise(20, 64, 4096))
    print(int(spectrum.argmax()), float(spectrum.max()))
