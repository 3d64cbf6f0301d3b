"""Matched filtering served by several threads, each with its own stream."""
from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

import cupy as cp
import numpy as np


class MatchedFilterService:
    def __init__(self, template: np.ndarray, size: int, workers: int = 3) -> None:
        self.size = size
        self.device = cp.cuda.Device()
        padded = np.zeros(size, dtype=np.float32)
        padded[: template.size] = template
        self.spectrum = cp.conj(cp.fft.rfft(cp.asarray(padded)))
        self.prepared = cp.cuda.get_current_stream().record()
        self.jobs: queue.Queue = queue.Queue()
        self.closed = False
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        self.device.use()
        stream = cp.cuda.Stream(non_blocking=True)
        stream.wait_event(self.prepared)
        while True:
            job = self.jobs.get()
            if job is None:
                stream.synchronize()
                return
            samples, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                with stream:
                    result = self._filter(samples, stream)
            except BaseException as exc:
                future.set_exception(exc)
            else:
                future.set_result(result)

    def _filter(self, samples: np.ndarray, stream: cp.cuda.Stream) -> np.ndarray:
        x = cp.asarray(samples)
        y = cp.fft.irfft(cp.fft.rfft(x) * self.spectrum, n=self.size)
        y /= cp.maximum(cp.abs(y).max(), 1e-12)
        host = cp.asnumpy(y, stream=stream)
        stream.synchronize()
        return host

    def submit(self, samples: np.ndarray) -> Future:
        if self.closed:
            raise RuntimeError("service is closed")
        if samples.size > self.size:
            raise ValueError("record is too long")
        record = np.zeros(self.size, dtype=np.float32)
        record[: samples.size] = samples
        future: Future = Future()
        self.jobs.put((record, future))
        return future

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        for _ in self.threads:
            self.jobs.put(None)
        for thread in self.threads:
            thread.join()


def main() -> None:
    rng = np.random.default_rng(7)
    template = np.sin(np.linspace(0, 40, 400)).astype(np.float32)
    service = MatchedFilterService(template, 1 << 16)
    try:
        futures = []
        for _ in range(32):
            record = rng.standard_normal(1 << 15).astype(np.float32)
            at = int(rng.integers(0, record.size - template.size))
            record[at:at + template.size] += 4 * template
            futures.append((at, service.submit(record)))
        hits = sum(abs(int(f.result().argmax()) - at) < 4 for at, f in futures)
        print(hits, "of", len(futures))
    finally:
        service.close()


if __name__ == "__main__":
    main()
