"""Background worker with its own context use and hand-off by events (PyCUDA)."""
import queue
import threading

import numpy as np
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.elementwise import ElementwiseKernel


class Worker(threading.Thread):
    def __init__(self, size, device=0):
        super().__init__(daemon=True)
        drv.init()
        self.size = size
        self.device = device
        self.inbox = queue.Queue(maxsize=2)
        self.outbox = queue.Queue()
        self.start()

    def run(self):
        context = drv.Device(self.device).make_context()
        try:
            self._serve()
        finally:
            context.pop()
            context.detach()

    def _serve(self):
        square = ElementwiseKernel(
            "const float *x, float *y", "y[i] = x[i] * x[i]", "square"
        )
        forward, backward = drv.Stream(), drv.Stream()
        x = gpuarray.empty(self.size, dtype=np.float32)
        y = gpuarray.empty(self.size, dtype=np.float32)
        source = drv.pagelocked_empty(self.size, np.float32)
        landing = drv.pagelocked_empty(self.size, np.float32)
        computed = drv.Event(drv.event_flags.DISABLE_TIMING)
        copied = drv.Event(drv.event_flags.DISABLE_TIMING)
        waiting = None
        while True:
            job = self.inbox.get() if waiting is None else self._next_or_none()
            if waiting is not None:
                copied.synchronize()
                self.outbox.put((waiting, landing.copy()))
                waiting = None
            if job is None:
                continue
            tag, values = job
            if tag is None:
                return
            if values.shape != (self.size,):
                self.outbox.put((tag, None))
                continue
            source[:] = values
            drv.memcpy_htod_async(x.gpudata, source, forward)
            square(x, y, stream=forward)
            computed.record(forward)
            backward.wait_for_event(computed)
            drv.memcpy_dtoh_async(landing, y.gpudata, backward)
            copied.record(backward)
            waiting = tag

    def _next_or_none(self):
        try:
            return self.inbox.get(timeout=0.001)
        except queue.Empty:
            return None

    def submit(self, tag, values):
        self.inbox.put((tag, np.array(values, dtype=np.float32)))

    def stop(self):
        self.inbox.put((None, None))
        self.join()


def square_all(arrays, size):
    worker = Worker(size)
    found = {}
    for tag, array in enumerate(arrays):
        worker.submit(tag, array)
    worker.stop()
    while not worker.outbox.empty():
        tag, value = worker.outbox.get()
        found[tag] = value
    return [found[tag] for tag in sorted(found)]
