from __future__ import annotations

import cupy as cp
import numpy as np
from cupyx.scipy.fft import get_fft_plan


class SharedPlanConvolver:
    """Several streams take turns with one FFT plan and its work area."""

    def __init__(self, n: int, kernel: np.ndarray, lanes: int = 3) -> None:
        self.n = n
        self.lanes = [cp.cuda.Stream(non_blocking=True) for _ in range(lanes)]
        self.setup = cp.cuda.Stream(non_blocking=True)
        with self.setup:
            probe = cp.zeros(n, dtype=cp.complex64)
            self.plan = get_fft_plan(probe, value_type="C2C")
            padded = cp.zeros(n, dtype=cp.complex64)
            padded[: kernel.size] = cp.asarray(kernel)
            with self.plan:
                self.response = cp.fft.fft(padded)
            self.plan_free = self.setup.record()
        self.outputs: list[tuple[cp.cuda.Stream, cp.ndarray]] = []

    def _transform(self, stream: cp.cuda.Stream, x: cp.ndarray, inverse: bool) -> cp.ndarray:
        stream.wait_event(self.plan_free)
        with self.plan:
            y = cp.fft.ifft(x) if inverse else cp.fft.fft(x)
        self.plan_free = stream.record()
        return y

    def submit(self, signal: np.ndarray) -> None:
        stream = self.lanes[len(self.outputs) % len(self.lanes)]
        with stream:
            x = cp.asarray(signal.astype(np.complex64))
            spectrum = self._transform(stream, x, inverse=False)
            spectrum *= self.response
            y = self._transform(stream, spectrum, inverse=True).real.copy()
        self.outputs.append((stream, y))

    def drain(self) -> list[np.ndarray]:
        results = []
        for stream, y in self.outputs:
            with stream:
                results.append(y.get())
        self.outputs.clear()
        return results


def main() -> None:
    rng = np.random.default_rng(4)
    n = 1 << 18
    conv = SharedPlanConvolver(n, np.hanning(129).astype(np.complex64))
    for _ in range(4):
        for _ in range(6):
            conv.submit(rng.standard_normal(n))
        print(sum(float(r.std()) for r in conv.drain()))


if __name__ == "__main__":
    main()
