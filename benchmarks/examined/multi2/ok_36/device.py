import numpy as np
from cuda import cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def run(fn, *args):
    err, *rest = fn(*args)
    if int(err):
        raise RuntimeError(f"{fn.__name__} failed: {err}")
    return rest[0] if rest else None


def new_stream():
    return run(cudart.cudaStreamCreateWithFlags, cudart.cudaStreamNonBlocking)


class Slot:
    """A device buffer with two events that go round with it."""

    def __init__(self, size):
        self.ptr = run(cudart.cudaMalloc, size)
        self.size = size
        self.full = run(cudart.cudaEventCreateWithFlags, cudart.cudaEventDisableTiming)
        self.empty = run(cudart.cudaEventCreateWithFlags, cudart.cudaEventDisableTiming)
        self.source = None

    def stamp(self, event, stream):
        run(cudart.cudaEventRecord, event, stream)

    def hold(self, event, stream):
        run(cudart.cudaStreamWaitEvent, stream, event, 0)


def host_page(size, value):
    page = np.full(size, value, dtype=np.uint8)
    run(cudart.cudaHostRegister, page.ctypes.data, size, 0)
    return page
