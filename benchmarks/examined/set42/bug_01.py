"""Overlapped minibatch transfer for a CuPy training loop."""
import cupy as cp
import numpy as np


def pinned_empty(shape, dtype):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class Slot:
    def __init__(self, shape, dtype):
        self.data = cp.empty(shape, dtype)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class Conveyor:
    """Moves host minibatches onto the device ahead of the compute stream."""

    def __init__(self, shape, dtype, stream, depth=2):
        self._stream = stream
        self._staging = pinned_empty(shape, dtype)
        self._slots = [Slot(shape, dtype) for _ in range(depth)]
        self._head = 0
        self._queue = []

    @property
    def full(self):
        return len(self._queue) == len(self._slots)

    @property
    def empty(self):
        return not self._queue

    def put(self, batch):
        slot = self._slots[self._head]
        self._head = (self._head + 1) % len(self._slots)
        self._staging[...] = batch
        self._stream.wait_event(slot.consumed)
        slot.data.set(self._staging, stream=self._stream)
        slot.ready.record(self._stream)
        self._queue.append(slot)

    def get(self, compute_stream):
        slot = self._queue.pop(0)
        compute_stream.wait_event(slot.ready)
        return slot

    def release(self, slot, compute_stream):
        slot.consumed.record(compute_stream)


class Updater:
    def __init__(self, features, classes, batch_size, device=0):
        with cp.cuda.Device(device) as dev:
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.transfer = cp.cuda.Stream(non_blocking=True)
            self.weight = cp.asarray(
                np.random.standard_normal((features, classes)).astype(np.float32))
            self.total = cp.zeros((), cp.float32)
            self.conveyor = Conveyor((batch_size, features), np.float32, self.transfer)
            dev.synchronize()

    def _consume(self):
        slot = self.conveyor.get(self.compute)
        with self.compute:
            scores = slot.data @ self.weight
            self.total += cp.square(scores).mean()
        self.conveyor.release(slot, self.compute)

    def run(self, batches):
        for batch in batches:
            self.conveyor.put(batch)
            if self.conveyor.full:
                self._consume()
        while not self.conveyor.empty:
            self._consume()
        self.compute.synchronize()
        return float(self.total)


def main():
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((256, 512), dtype=np.float32) for _ in range(16)]
    print(Updater(512, 10, 256).run(batches))


if __name__ == "__main__":
    main()
