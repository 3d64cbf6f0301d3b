"""Trigger unit: blocks are scored on the device, callbacks file the scores."""
import threading

import cupy as cp
import cupyx
import numpy as np

ENERGY = cp.ReductionKernel(
    "float32 x", "float32 energy", "x * x", "a + b", "energy = a", "0", "block_energy")


class Trigger:
    """Counts the channels above threshold for each block."""

    def __init__(self, channels, samples, threshold, slots=64):
        self.threshold = threshold
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.scores = [cupyx.zeros_pinned(channels, dtype=np.float32) for _ in range(slots)]
        with self.stream:
            self.block = cp.empty((channels, samples), dtype=cp.float32)
            self.energy = cp.empty(channels, dtype=cp.float32)
        self.fired = {}
        self.pending = threading.Semaphore(slots)

    def _file(self, job):
        number, scores = job
        self.fired[number] = int((scores > self.threshold).sum())
        self.pending.release()

    def submit(self, number, samples):
        self.pending.acquire()
        scores = self.scores[number % len(self.scores)]
        with self.stream:
            self.block.set(samples, stream=self.stream)
            ENERGY(self.block, self.energy, axis=1)
            self.stream.launch_host_func(self._file, (number, scores))
            self.energy.get(stream=self.stream, out=scores, blocking=False)

    def finish(self):
        self.stream.synchronize()
        return self.fired


def run(blocks=200, channels=512, samples=8192):
    rng = np.random.default_rng(2)
    trigger = Trigger(channels, samples, threshold=1.02 * samples)
    for number in range(blocks):
        trigger.submit(number, rng.standard_normal((channels, samples), dtype=np.float32))
    return trigger.finish()


if __name__ == "__main__":
    fired = run()
    print(len(fired), max(fired.values()))
