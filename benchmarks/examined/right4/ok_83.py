import cupy as cp
import cupyx
import numpy as np


class InputBlock:
    def __init__(self, n):
        self.pinned = cupyx.empty_pinned(n, np.float32)
        self.dev = cp.empty(n, cp.float32)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class OverlapAdd:
    def __init__(self, taps, block):
        self.block = block
        self.nfft = 1 << int(np.ceil(np.log2(block + len(taps) - 1)))
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        with self.work:
            self.response = cp.fft.rfft(cp.asarray(taps, cp.float32), self.nfft)
            self.tail = cp.zeros(self.nfft - block, cp.float32)
        self.inputs = [InputBlock(block) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def _push(self, i, samples):
        slot = self.inputs[i % 2]
        slot.uploaded.synchronize()
        slot.pinned[:samples.size] = samples
        slot.pinned[samples.size:] = 0
        self.upload.wait_event(slot.consumed)
        slot.dev.set(slot.pinned, stream=self.upload)
        slot.uploaded.record(self.upload)
        return slot

    def _transform(self, slot):
        self.work.wait_event(slot.uploaded)
        with self.work:
            y = cp.fft.irfft(cp.fft.rfft(slot.dev, self.nfft) * self.response, self.nfft).astype(cp.float32)
            slot.consumed.record(self.work)
            y[: self.tail.size] += self.tail
            self.tail[...] = y[self.block:]
            return y[: self.block]

    def _pull(self, y):
        with self.work:
            host = cp.asnumpy(y)
        self.work.synchronize()
        return host

    def __call__(self, blocks):
        previous = None
        for i, samples in enumerate(blocks):
            current = self._transform(self._push(i, samples))
            if previous is not None:
                yield self._pull(previous)
            previous = current
        if previous is not None:
            yield self._pull(previous)


def main(block=1 << 16, count=40):
    rng = np.random.default_rng(0)
    taps = np.hanning(1025).astype(np.float32)
    source = (rng.normal(size=block).astype(np.float32) for _ in range(count))
    return sum(float(np.abs(b).mean()) for b in OverlapAdd(taps, block)(source)) / count
