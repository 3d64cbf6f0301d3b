"""Two-thread replay of detector data with an acknowledgement for every page."""
import threading

import cupy as cp
import cupyx
import numpy as np

PIXELS = 1 << 20


class Mailbox:
    def __init__(self):
        self.page = cupyx.empty_pinned(PIXELS, np.uint16)
        self.cond = threading.Condition()
        self.number = None
        self.closed = False

    def put(self, number, pixels):
        with self.cond:
            self.cond.wait_for(lambda: self.number is None)
            self.page[:] = pixels
            self.number = number
            self.cond.notify_all()

    def take(self):
        with self.cond:
            self.cond.wait_for(lambda: self.number is not None or self.closed)
            return self.number

    def acknowledge(self):
        with self.cond:
            self.number = None
            self.cond.notify_all()

    def close(self):
        with self.cond:
            self.cond.wait_for(lambda: self.number is None)
            self.closed = True
            self.cond.notify_all()


def integrate(mailbox, results):
    stream = cp.cuda.Stream(non_blocking=True)
    uploaded = cp.cuda.Event(disable_timing=True)
    with stream:
        total = cp.zeros(PIXELS, cp.float32)
        raw = cp.empty(PIXELS, cp.uint16)
        while mailbox.take() is not None:
            raw.set(mailbox.page, stream=stream)
            uploaded.record(stream)
            total += cp.sqrt(raw.astype(cp.float32))
            uploaded.synchronize()
            mailbox.acknowledge()
        results.append(total.get())


def main(frames=60):
    mailbox, results = Mailbox(), []
    consumer = threading.Thread(target=integrate, args=(mailbox, results))
    consumer.start()
    rng = np.random.default_rng(58)
    for number in range(frames):
        mailbox.put(number, rng.integers(0, 4096, PIXELS, dtype=np.uint16))
    mailbox.close()
    consumer.join()
    print(results[0].mean() / frames)


if __name__ == "__main__":
    main()
