"""Small decode pipeline with a ring of output slots."""
from collections import deque

import cupy as cp
import numpy as np

normalize = cp.ElementwiseKernel(
    "uint8 x, float32 mean, float32 inv_std", "float32 y",
    "y = ((float)x - mean) * inv_std", "normalize")


class Slot:
    def __init__(self, shape):
        self.data = cp.empty(shape, dtype=cp.float32)
        self.ready = cp.cuda.Event(disable_timing=True)


class Pipeline:
    def __init__(self, source, batch_shape, depth=2):
        self.source = iter(source)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = deque(Slot(batch_shape) for _ in range(depth))
        self.busy = deque()
        self.mean = np.float32(127.5)
        self.inv_std = np.float32(1.0 / 64.0)

    def schedule_run(self):
        if not self.free:
            return False
        raw = next(self.source, None)
        if raw is None:
            return False
        slot = self.free.popleft()
        with self.stream:
            frames = cp.asarray(raw)
            normalize(frames, self.mean, self.inv_std, slot.data)
            slot.ready.record(self.stream)
        self.busy.append(slot)
        return True

    def share_outputs(self):
        return self.busy[0]

    def release_outputs(self):
        self.free.append(self.busy.popleft())


def copy_to_external(slot, dst, stream):
    stream.wait_event(slot.ready)
    dst.data.copy_from_device_async(slot.data.data, slot.data.nbytes, stream)


class TrainingIterator:
    def __init__(self, pipe, batch_shape, user_stream):
        self.pipe = pipe
        self.user_stream = user_stream
        self.shape = batch_shape
        self.primed = False

    def __iter__(self):
        return self

    def __next__(self):
        if not self.primed:
            while self.pipe.schedule_run():
                pass
            self.primed = True
        if not self.pipe.busy:
            raise StopIteration
        slot = self.pipe.share_outputs()
        with self.user_stream:
            batch = cp.empty(self.shape, dtype=cp.float32)
        copy_to_external(slot, batch, self.user_stream)
        self.pipe.release_outputs()
        self.pipe.schedule_run()
        return batch


def source(n, shape):
    rng = np.random.default_rng(0)
    for _ in range(n):
        yield rng.integers(0, 255, size=shape, dtype=np.uint8)


def main():
    shape = (32, 3, 224, 224)
    user_stream = cp.cuda.Stream(non_blocking=True)
    pipe = Pipeline(source(40, shape), shape)
    cp.cuda.Device().synchronize()
    with user_stream:
        weights = cp.linspace(0, 1, 224, dtype=cp.float32)
        total = cp.zeros((32, 3), dtype=cp.float32)
    for batch in TrainingIterator(pipe, shape, user_stream):
        with user_stream:
            total += (batch * weights).sum(axis=(2, 3))
    print(total.get(stream=user_stream).mean())


if __name__ == "__main__":
    main()
