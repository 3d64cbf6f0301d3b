"""Spectral features computed on one stream and read back through page-locked memory."""
import cupy as cp
import cupyx
import numpy as np


class Readback:
    """One pinned destination plus the stream whose work ends in it."""

    def __init__(self, shape, dtype):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.dst = cupyx.empty_pinned(shape, dtype=dtype)
        self.tag = None

    def begin(self, tag, arr, after):
        self.stream.wait_event(after)
        arr.get(stream=self.stream, out=self.dst, blocking=False)
        self.tag = tag
        self.source = arr

    def take(self):
        self.stream.synchronize()
        tag, self.tag = self.tag, None
        self.source = None
        return tag, self.dst.copy()

    @property
    def busy(self):
        return self.tag is not None


class FeatureBank:
    def __init__(self, samples, bands, lanes=2, seed=0):
        self.samples, self.bands = samples, bands
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.lanes = [Readback((bands,), np.float32) for _ in range(lanes)]
        with self.compute:
            rng = cp.random.RandomState(seed)
            self.weights = rng.random_sample((bands, samples), dtype=np.float32)
            self.events = [cp.cuda.Event(disable_timing=True) for _ in range(lanes)]
        self.compute.synchronize()

    def _features(self, k):
        with self.compute:
            t = cp.arange(self.samples, dtype=cp.float32)
            wave = cp.sin(t * np.float32(0.001 * (k + 1)))
            feats = cp.log1p(cp.abs(self.weights @ wave))
        return feats

    def run(self, count):
        results = {}
        for k in range(count):
            lane = self.lanes[k % len(self.lanes)]
            if lane.busy:
                tag, values = lane.take()
                results[tag] = values
            feats = self._features(k)
            event = self.events[k % len(self.lanes)]
            event.record(self.compute)
            lane.begin(k, feats, event)
        for lane in self.lanes:
            if lane.busy:
                tag, values = lane.take()
                results[tag] = values
        return results


def main():
    bank = FeatureBank(1 << 16, 256)
    table = bank.run(40)
    stacked = np.stack([table[k] for k in sorted(table)])
    print(stacked.shape, float(stacked.mean()))


if __name__ == "__main__":
    main()
