"""Per-thread default streams for independent spectra."""
import queue
import threading

import cupy as cp
import numpy as np


class SpectrumThread(threading.Thread):
    def __init__(self, window: cp.ndarray, jobs: queue.Queue, results: dict, lock: threading.Lock):
        super().__init__()
        self.window = window
        self.jobs = jobs
        self.results = results
        self.lock = lock

    def run(self) -> None:
        with cp.cuda.Stream.ptds:
            while True:
                try:
                    key, samples = self.jobs.get_nowait()
                except queue.Empty:
                    return
                value = self._spectrum(samples)
                with self.lock:
                    self.results[key] = value

    def _spectrum(self, samples: np.ndarray) -> np.ndarray:
        n = self.window.size
        frames = cp.asarray(samples[: samples.size // n * n]).reshape(-1, n)
        tapered = frames * self.window
        spectrum = cp.fft.rfft(tapered, axis=1)
        magnitude = cp.abs(spectrum)
        power = magnitude ** 2
        mean = power.mean(axis=0)
        return mean.get()


def welch_many(signals: dict[str, np.ndarray], n: int, workers: int) -> dict[str, np.ndarray]:
    window = cp.hanning(n).astype(cp.float32)
    cp.cuda.get_current_stream().synchronize()
    jobs: queue.Queue = queue.Queue()
    for item in signals.items():
        jobs.put(item)
    results: dict[str, np.ndarray] = {}
    lock = threading.Lock()
    threads = [SpectrumThread(window, jobs, results, lock) for _ in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def main():
    rng = np.random.default_rng(11)
    signals = {f"ch{i}": rng.standard_normal(1 << 18).astype(np.float32) for i in range(24)}
    spectra = welch_many(signals, 1024, workers=4)
    print(len(spectra), float(np.mean([s.mean() for s in spectra.values()])))


if __name__ == "__main__":
    main()
