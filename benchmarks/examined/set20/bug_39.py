"""Spectrum viewer graph: burst source, FFT and logging operators."""
import cupy as cp
import cupyx
import numpy as np

BURST = 1 << 20


class Message:
    """Tensor plus the stream its producer used."""

    def __init__(self, tensor, stream):
        self.tensor = tensor
        self.stream = stream


class RxOp:
    def __init__(self, bursts):
        self.bursts = bursts
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.raw = [cp.empty((BURST, 2), dtype=cp.int16) for _ in range(2)]
            phase = 2 * np.pi * 0.1 * cp.arange(BURST)
            self.mixer = cp.exp(-1j * phase).astype(cp.complex64)
        self.count = 0

    def compute(self):
        raw = self.raw[self.count % 2]
        raw.set(self.bursts[self.count % len(self.bursts)], stream=self.stream)
        self.count += 1
        with self.stream:
            samples = (raw[:, 0] + 1j * raw[:, 1]).astype(cp.complex64)
            samples *= self.mixer
        return Message(samples, self.stream)


class FftOp:
    def compute(self, msg):
        with msg.stream:
            spectrum = cp.fft.fft(msg.tensor.reshape(-1, 4096), axis=1)
            power = cp.abs(spectrum).mean(axis=0)
        return Message(power, msg.stream)


class LogOp:
    def __init__(self, log_data, stride=20, count=64):
        self.log_data = log_data
        self.stride = stride
        self.host = cupyx.empty_pinned((count,), dtype=np.complex64)
        self.staging = cp.empty(count, dtype=cp.complex64)
        self.total_samples = 0

    def _print(self, tensor):
        cp.copyto(self.staging, tensor[::self.stride][:self.staging.size])
        self.staging.get(out=self.host, blocking=False)
        cp.cuda.Device().synchronize()
        print(np.array2string(self.host[:8], precision=2))

    def compute(self, msg):
        self.total_samples += msg.tensor.size
        if self.log_data:
            self._print(msg.tensor)
        return msg


class HolovizOp:
    def __init__(self):
        self.host = cupyx.empty_pinned((4096,), dtype=np.float32)

    def compute(self, msg):
        msg.tensor.get(stream=msg.stream, out=self.host, blocking=False)
        msg.stream.synchronize()
        return float(self.host.max())


class SpectrumViewer:
    def __init__(self, bursts):
        self.rx = RxOp(bursts)
        self.log = LogOp(log_data=True)
        self.fft = FftOp()
        self.viz = HolovizOp()
        cp.cuda.Device().synchronize()

    def run(self, ticks):
        peaks = []
        for _ in range(ticks):
            msg = self.rx.compute()
            msg = self.log.compute(msg)
            peaks.append(self.viz.compute(self.fft.compute(msg)))
        return peaks


def main():
    rng = np.random.default_rng(0)
    bursts = []
    for _ in range(4):
        b = cupyx.empty_pinned((BURST, 2), dtype=np.int16)
        b[...] = rng.integers(-2000, 2000, (BURST, 2), dtype=np.int16)
        bursts.append(b)
    return SpectrumViewer(bursts).run(10)


if __name__ == "__main__":
    print(max(main()))
