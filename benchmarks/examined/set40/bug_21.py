"""Running power spectrum with a peak read-out for a live receiver display."""
import argparse
import time

import cupy as cp
import cupyx
import numpy as np


class SpectrumMonitor:
    def __init__(self, nfft=4096, sample_rate=2.4e6):
        self.nfft = nfft
        self.sample_rate = sample_rate
        self.nbins = nfft // 2 + 1
        self.count = 0
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            n = cp.arange(nfft, dtype=cp.float32)
            self.window = 0.5 - 0.5 * cp.cos(2 * cp.pi * n / (nfft - 1))
            self.acc = cp.zeros(self.nbins, dtype=cp.float32)
            self.avg = cp.zeros(self.nbins, dtype=cp.float32)
        self.host_psd = cupyx.empty_pinned((self.nbins,), dtype=np.float32)
        self.freqs = np.fft.rfftfreq(nfft, d=1.0 / sample_rate)

    def push(self, samples):
        usable = (samples.size // self.nfft) * self.nfft
        if usable == 0:
            return 0
        with self.stream:
            x = cp.asarray(samples[:usable]).reshape(-1, self.nfft)
            spec = cp.fft.rfft(x * self.window, axis=1)
            power = (spec.real ** 2 + spec.imag ** 2).astype(cp.float32)
            self.acc += power.sum(axis=0)
        blocks = usable // self.nfft
        self.count += blocks
        return blocks

    def snapshot(self):
        with self.stream:
            self.avg[...] = self.acc / np.float32(max(self.count, 1))
            self.avg.data.copy_to_host_async(
                self.host_psd.ctypes.data, self.host_psd.nbytes, self.stream)
            self.acc[...] = 0
        self.count = 0

    def peak(self, skip_dc=4):
        psd = self.host_psd[skip_dc:]
        k = int(np.argmax(psd)) + skip_dc
        level = 10.0 * np.log10(float(self.host_psd[k]) + 1e-12)
        return self.freqs[k], level

    def close(self):
        self.stream.synchronize()


def synth(rng, n, rate, tone):
    t = np.arange(n, dtype=np.float64) / rate
    sig = np.sin(2 * np.pi * tone * t) + 0.2 * rng.standard_normal(n)
    return sig.astype(np.float32)


def run(args):
    rng = np.random.default_rng(args.seed)
    mon = SpectrumMonitor(nfft=args.nfft, sample_rate=args.rate)
    history = []
    for sweep in range(args.sweeps):
        tone = args.tone + 1.0e3 * sweep
        for _ in range(args.chunks):
            mon.push(synth(rng, args.chunk, args.rate, tone))
        mon.snapshot()
        freq, level = mon.peak()
        history.append((sweep, freq, level))
        print(f"sweep {sweep:3d}  peak {freq / 1e3:9.2f} kHz  {level:6.2f} dB")
    mon.close()
    return history


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nfft", type=int, default=4096)
    ap.add_argument("--rate", type=float, default=2.4e6)
    ap.add_argument("--tone", type=float, default=3.0e5)
    ap.add_argument("--chunk", type=int, default=1 << 20)
    ap.add_argument("--chunks", type=int, default=8)
    ap.add_argument("--sweeps", type=int, default=20)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    t0 = time.perf_counter()
    run(args)
    print(f"done in {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
