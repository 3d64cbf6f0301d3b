"""Periodogram service on CuPy: workers have streams, the shared window lives on the null stream."""
import queue
import threading

import cupy as cp
import numpy as np


class Window:
    """A taper that can be replaced between requests."""

    def __init__(self, n):
        self.n = n
        with cp.cuda.Stream.null:
            self.values = cp.hanning(n).astype(cp.float32)
        self.lock = threading.Lock()

    def update(self, beta):
        with self.lock, cp.cuda.Stream.null:
            self.values[...] = cp.asarray(np.kaiser(self.n, beta).astype(np.float32))


class Worker(threading.Thread):
    def __init__(self, window, inbox, outbox):
        super().__init__(daemon=True)
        self.window, self.inbox, self.outbox = window, inbox, outbox

    def run(self):
        stream = cp.cuda.Stream()
        with stream:
            for ticket, signal in iter(self.inbox.get, None):
                self.outbox.put((ticket, self._spectrum(signal)))

    def _spectrum(self, signal):
        frames = cp.asarray(signal.reshape(-1, self.window.n))
        with self.window.lock:
            tapered = frames * self.window.values
        power = cp.abs(cp.fft.rfft(tapered, axis=1)) ** 2
        return cp.asnumpy(power.mean(axis=0))


class Service:
    def __init__(self, n, workers=4):
        self.window = Window(n)
        self.inbox, self.outbox = queue.Queue(), queue.Queue()
        self.threads = [Worker(self.window, self.inbox, self.outbox) for _ in range(workers)]
        for thread in self.threads:
            thread.start()

    def submit(self, ticket, signal):
        self.inbox.put((ticket, np.ascontiguousarray(signal, dtype=np.float32)))

    def retune(self, beta):
        self.window.update(beta)

    def close(self):
        for _ in self.threads:
            self.inbox.put(None)
        for thread in self.threads:
            thread.join()


def main(jobs=64, n=1024, frames=512):
    service = Service(n)
    rng = np.random.default_rng(0)
    for ticket in range(jobs):
        service.submit(ticket, rng.normal(size=frames * n))
        if ticket % 16 == 15:
            service.retune(4.0 + ticket / 16)
    results = dict(service.outbox.get() for _ in range(jobs))
    service.close()
    return np.stack([results[t] for t in range(jobs)])


if __name__ == "__main__":
    print(main().shape)
