import cupy as cp
import numpy as np


def pinned_array(shape, dtype=np.float32):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class FrameUploader:
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.sent = cp.cuda.Event()
        self.host = pinned_array(shape)
        self.dev = cp.empty(shape, dtype=cp.float32)

    def send(self):
        current = cp.cuda.get_current_stream()
        self.stream.wait_event(current.record())
        self.dev.set(self.host, stream=self.stream)
        self.sent.record(self.stream)
        current.wait_event(self.sent)
        return self.dev

    def done(self):
        self.sent.synchronize()
