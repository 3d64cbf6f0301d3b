import threading
from contextlib import contextmanager

import torch


class Turnstile:
    def __init__(self):
        self._lock = threading.Lock()
        self._tail = None

    @contextmanager
    def pass_through(self):
        stream = torch.cuda.current_stream()
        with self._lock:
            if self._tail is not None:
                stream.wait_event(self._tail)
            try:
                yield
            finally:
                self._tail = stream.record_event()


class SharedCounts:
    def __init__(self, bins):
        self.turnstile = Turnstile()
        with self.turnstile.pass_through():
            self.counts = torch.zeros(bins, dtype=torch.long, device="cuda")

    def add(self, values):
        partial = torch.bincount(values, minlength=self.counts.numel())
        with self.turnstile.pass_through():
            self.counts += partial

    def read(self):
        with self.turnstile.pass_through():
            return self.counts.tolist()


class Counter(threading.Thread):
    def __init__(self, shared, chunks):
        super().__init__()
        self.shared, self.chunks = shared, chunks
        self.stream = torch.cuda.Stream()

    def run(self):
        with torch.cuda.stream(self.stream):
            for chunk in self.chunks:
                self.shared.add(chunk.cuda())


def main(threads=3):
    shared = SharedCounts(256)
    workers = [
        Counter(shared, [torch.randint(0, 256, (1 << 18,)) for _ in range(10)]) for _ in range(threads)
    ]
    for w in workers:
        w.start()
    early = shared.read()
    for w in workers:
        w.join()
    return sum(early), sum(shared.read())


if __name__ == "__main__":
    print(main())
