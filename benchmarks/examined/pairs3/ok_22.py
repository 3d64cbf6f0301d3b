"""Range-Doppler maps of several receivers in parallel with cuFFT."""
from dataclasses import dataclass

import cupy as cp
import numpy as np
from cupy.cuda import cufft
from cupyx.scipy.fft import get_fft_plan

PULSES, SAMPLES = 512, 4099


@dataclass
class Lane:
    stream: cp.cuda.Stream
    plan: cufft.Plan1d
    data: cp.ndarray
    out: cp.ndarray

    @classmethod
    def create(cls):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            data = cp.zeros((PULSES, SAMPLES), cp.complex64)
            out = cp.empty_like(data)
            plan = get_fft_plan(data, axes=1)
        return cls(stream, plan, data, out)

    def process(self, echo):
        with self.stream:
            self.data[...] = cp.asarray(echo)
            self.plan.fft(self.data, self.out, cufft.CUFFT_FORWARD)
            return cp.abs(self.out).max(axis=0)


class Receiver:
    def __init__(self, lanes=3):
        self.lanes = [Lane.create() for _ in range(lanes)]

    def maps(self, echoes):
        pending = []
        for i, echo in enumerate(echoes):
            lane = self.lanes[i % len(self.lanes)]
            pending.append((lane, lane.process(echo)))
        for lane, profile in pending:
            with lane.stream:
                yield profile.get()


def main(count=24):
    rng = np.random.default_rng(2)
    shape = (PULSES, SAMPLES)
    echoes = [(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
              for _ in range(count)]
    for profile in Receiver().maps(echoes):
        print(int(profile.argmax()))


if __name__ == "__main__":
    main()
