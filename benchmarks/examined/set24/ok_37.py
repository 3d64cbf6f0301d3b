"""Background prefetch of token windows to the GPU."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class BatchSlot:
    def __init__(self, shape):
        self.host = cupyx.empty_pinned(shape, dtype=np.int32)
        self.dev = cp.empty(shape, dtype=cp.int32)
        self.uploaded = cp.cuda.Event(disable_timing=True)
        self.released = cp.cuda.Event(disable_timing=True)


class PrefetchLoader:
    def __init__(self, tokens, batch, window, device=0, depth=3):
        self.tokens, self.batch, self.window = tokens, batch, window
        self.device = device
        self.free = queue.Queue()
        self.ready = queue.Queue()
        for _ in range(depth):
            self.free.put(BatchSlot((batch, window)))
        self.error = None

    def _produce(self, steps):
        try:
            with cp.cuda.Device(self.device):
                stream = cp.cuda.Stream(non_blocking=True)
                rng = np.random.default_rng(0)
                for _ in range(steps):
                    slot = self.free.get()
                    slot.uploaded.synchronize()
                    starts = rng.integers(0, len(self.tokens) - self.window, self.batch)
                    for row, s in enumerate(np.sort(starts)):
                        slot.host[row] = self.tokens[s:s + self.window]
                    stream.wait_event(slot.released)
                    slot.dev.set(slot.host, stream=stream)
                    slot.uploaded.record(stream)
                    self.ready.put(slot)
                stream.synchronize()
        except Exception as exc:
            self.error = exc
        finally:
            self.ready.put(None)

    def batches(self, steps, stream):
        worker = threading.Thread(target=self._produce, args=(steps,), daemon=True)
        worker.start()
        while True:
            slot = self.ready.get()
            if slot is None:
                break
            stream.wait_event(slot.uploaded)
            yield slot.dev
            slot.released.record(stream)
            self.free.put(slot)
        worker.join()
        if self.error is not None:
            raise self.error


def main():
    tokens = np.random.randint(0, 50000, 1 << 22).astype(np.int32)
    stream = cp.cuda.Stream(non_blocking=True)
    loader = PrefetchLoader(tokens, 64, 1024)
    with stream:
        table = cp.random.random((50000, 128), dtype=cp.float32)
        total = cp.zeros(128, dtype=cp.float64)
        for batch in loader.batches(100, stream):
            total += table[batch].mean(axis=(0, 1))
        result = total.get(stream=stream)
    stream.synchronize()
    print(result[:4])


if __name__ == "__main__":
    main()
