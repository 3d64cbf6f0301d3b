"""Overlapped minibatch transfer, one pinned buffer for all columns of a batch."""
import cupy as cp
import numpy as np


def pinned_like(shape, dtype):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class StagingArea:
    """A single page-locked block that is lent out for one upload at a time."""

    def __init__(self, shape, dtype):
        self._block = pinned_like(shape, dtype)
        self._last_upload = None

    def borrow(self):
        if self._last_upload is not None:
            self._last_upload.synchronize()
            self._last_upload = None
        return self._block

    def hand_in(self, stream):
        self._last_upload = stream.record()


class ConcatWithAsyncTransfer:
    def __init__(self, shape, dtype, compute_stream):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = compute_stream
        self.staging = StagingArea(shape, dtype)
        self.buffers = [cp.empty(shape, dtype) for _ in range(2)]
        self.drained = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.turn = 0

    def __call__(self, examples):
        host = self.staging.borrow()
        np.stack(examples, out=host)
        which = self.turn
        self.turn ^= 1
        self.stream.wait_event(self.drained[which])
        self.buffers[which].set(host, stream=self.stream)
        self.staging.hand_in(self.stream)
        return which, self.stream.record()

    def open(self, ticket):
        which, uploaded = ticket
        self.compute_stream.wait_event(uploaded)
        return self.buffers[which]

    def close(self, ticket):
        self.drained[ticket[0]].record(self.compute_stream)


class Trainer:
    def __init__(self, features, batch_size):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.converter = ConcatWithAsyncTransfer(
            (batch_size, features), np.float32, self.compute)
        self.mean = cp.zeros(features, cp.float32)
        cp.cuda.Device().synchronize()

    def step(self, ticket):
        x = self.converter.open(ticket)
        with self.compute:
            self.mean *= 0.9
            self.mean += 0.1 * x.mean(axis=0)
        self.converter.close(ticket)

    def fit(self, dataset, batch_size):
        ahead = None
        for start in range(0, len(dataset), batch_size):
            ticket = self.converter(dataset[start:start + batch_size])
            if ahead is not None:
                self.step(ahead)
            ahead = ticket
        self.step(ahead)
        self.compute.synchronize()
        return self.mean.get()


def main():
    rng = np.random.default_rng(3)
    dataset = [rng.standard_normal(128, dtype=np.float32) for _ in range(1024)]
    print(Trainer(128, 64).fit(dataset, 64)[:4])


if __name__ == "__main__":
    main()
