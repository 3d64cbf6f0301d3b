"""Bootstrap estimate: replicates on worker streams, summary on a reduction stream."""
import cupy as cp
import numpy as np

SAMPLES = 1 << 21


class Bootstrap:
    def __init__(self, data, replicates=8):
        self.workers = [cp.cuda.Stream(non_blocking=True) for _ in range(replicates)]
        self.summary = cp.cuda.Stream(non_blocking=True)
        self.data = cp.asarray(data)
        cp.cuda.Device().synchronize()

    def _replicate(self, worker, shift):
        with worker:
            index = (cp.arange(SAMPLES, dtype=cp.int64) * 6364136223846793005 + shift) % SAMPLES
            mean = self.data[index].mean()
        event = cp.cuda.get_current_stream().record()
        return mean, event

    def estimate(self, seed):
        rng = np.random.default_rng(seed)
        results = [self._replicate(w, int(rng.integers(1 << 40))) for w in self.workers]
        with self.summary:
            for _, event in results:
                self.summary.wait_event(event)
            means = cp.stack([mean for mean, _ in results])
            spread = means.std().get()
        for worker in self.workers:
            worker.synchronize()
        return float(spread)


def main():
    rng = np.random.default_rng(40)
    bootstrap = Bootstrap(rng.standard_normal(SAMPLES))
    print([bootstrap.estimate(seed) for seed in range(10)])


if __name__ == "__main__":
    main()
