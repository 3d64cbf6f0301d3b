"""Device message buffers shared by publisher and subscriber callbacks."""
import threading
from contextlib import contextmanager

import cupy as cp
import numpy as np


class CudaBuffer:
    """One device block with its last write event and outstanding read events."""

    def __init__(self, nbytes):
        self.data = cp.zeros(nbytes, dtype=cp.uint8)
        cp.cuda.get_current_stream().synchronize()
        self.lock = threading.Lock()
        self.write_event = None
        self.read_events = []

    def _reap(self):
        self.read_events = [e for e in self.read_events if not e.done]

    @contextmanager
    def write_handle(self, stream):
        with self.lock:
            self._reap()
            for event in self.read_events:
                stream.wait_event(event)
            if self.write_event is not None:
                stream.wait_event(self.write_event)
            try:
                with stream:
                    yield self.data
            finally:
                self.write_event = stream.record()
                self.read_events = []

    @contextmanager
    def read_handle(self, stream):
        with self.lock:
            if self.write_event is not None:
                stream.wait_event(self.write_event)
            try:
                with stream:
                    yield self.data
            finally:
                self.read_events.append(stream.record())


_gain = cp.ElementwiseKernel("uint8 x, float32 g", "uint8 y", "y = min(255.0f, x * g)", "gain")


class CameraNode:
    """Publishes frames into the buffer from its own stream."""

    def __init__(self, buffer, nbytes):
        self.buffer = buffer
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.scratch = cp.empty(nbytes, dtype=cp.uint8)

    def publish(self, frame, gain):
        self.scratch.set(frame, stream=self.stream)
        self.stream.synchronize()
        with self.buffer.write_handle(self.stream) as out:
            _gain(self.scratch, np.float32(gain), out)


class HistogramNode:
    """Reads the buffer and accumulates a histogram on its own stream."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.hist = cp.zeros(256, dtype=cp.int64)

    def on_message(self):
        with self.buffer.read_handle(self.stream) as data:
            self.hist += cp.bincount(data, minlength=256)

    def result(self):
        return self.hist.get(stream=self.stream)


def spin(frames, gain=1.1):
    nbytes = frames[0].nbytes
    buffer = CudaBuffer(nbytes)
    camera = CameraNode(buffer, nbytes)
    listeners = [HistogramNode(buffer) for _ in range(2)]
    for frame in frames:
        camera.publish(frame, gain)
        workers = [threading.Thread(target=node.on_message) for node in listeners]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    return [node.result() for node in listeners]
