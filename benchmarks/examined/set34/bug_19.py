"""Overlap-save convolution of radio data with cached plans and several streams."""
import threading

import cupy as cp
import cupyx
import numpy as np


class ConvolutionPlan:
    """Precomputed transfer function and work area for blocks of one length."""

    def __init__(self, taps, nfft, batch):
        self.nfft = nfft
        self.transfer = cp.fft.fft(cp.asarray(taps), nfft).astype(cp.complex64)
        self.work = cp.empty((batch, nfft), cp.complex64)

    def execute(self, block, out):
        self.work[...] = cp.fft.fft(block, axis=1)
        self.work *= self.transfer
        out[...] = cp.fft.ifft(self.work, axis=1)


class PlanCache:
    def __init__(self):
        self._plans = {}
        self._lock = threading.Lock()

    def get(self, taps, nfft, batch):
        key = (taps.tobytes(), nfft, batch)
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                plan = ConvolutionPlan(taps, nfft, batch)
                cp.cuda.get_current_stream().synchronize()
                self._plans[key] = plan
            return plan


class Channelizer:
    def __init__(self, taps, nfft=1 << 15, batch=32, num_streams=3):
        self.taps = np.asarray(taps, np.float32)
        self.nfft = nfft
        self.batch = batch
        self.cache = PlanCache()
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        self.host = [cupyx.empty_pinned((batch, nfft), np.complex64) for _ in self.streams]
        self.blocks = []
        self.outs = []
        for stream in self.streams:
            with stream:
                self.blocks.append(cp.empty((batch, nfft), cp.complex64))
                self.outs.append(cp.empty((batch, nfft), cp.complex64))
        self.power = np.zeros(nfft, np.float64)

    def _collect(self, slot):
        self.streams[slot].synchronize()
        self.power += np.abs(self.host[slot]).mean(axis=0)

    def run(self, source):
        busy = [False] * len(self.streams)
        for n, samples in enumerate(source):
            slot = n % len(self.streams)
            stream = self.streams[slot]
            if busy[slot]:
                self._collect(slot)
            self.host[slot][...] = samples
            with stream:
                plan = self.cache.get(self.taps, self.nfft, self.batch)
                self.blocks[slot].set(self.host[slot], stream=stream)
                plan.execute(self.blocks[slot], self.outs[slot])
                self.outs[slot].get(stream=stream, out=self.host[slot], blocking=False)
            busy[slot] = True
        for slot, flag in enumerate(busy):
            if flag:
                self._collect(slot)
        return self.power


def noise(count, batch, nfft):
    rng = np.random.default_rng(5)
    for _ in range(count):
        yield (rng.standard_normal((batch, nfft)) + 1j * rng.standard_normal((batch, nfft))).astype(np.complex64)


if __name__ == "__main__":
    chan = Channelizer(np.hamming(129))
    print(chan.run(noise(24, chan.batch, chan.nfft)).mean())
