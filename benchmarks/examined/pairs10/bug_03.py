"""Frame history kept on the device; temporaries come from the async pool."""
import numpy as np
from cuda.bindings import runtime as cudart


def _ok(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return values[0] if values else None


class Temporaries:
    """Stream-ordered temporaries of the decode stream."""

    def __init__(self, stream):
        self._stream = stream

    def allocate(self, nbytes):
        return _ok(cudart.cudaMallocAsync(nbytes, self._stream))

    def release(self, pointer):
        _ok(cudart.cudaFreeAsync(pointer, self._stream))


class FrameHistory:
    """Decodes into a temporary, then files the frame in a history slot."""

    def __init__(self, frame_bytes, length):
        flags = cudart.cudaStreamNonBlocking
        self.frame_bytes = frame_bytes
        self.length = length
        self.decode = _ok(cudart.cudaStreamCreateWithFlags(flags))
        self.archive = _ok(cudart.cudaStreamCreateWithFlags(flags))
        self.decoded = _ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.temps = Temporaries(self.decode)
        self.slots = [_ok(cudart.cudaMalloc(frame_bytes)) for _ in range(length)]

    def append(self, number, level):
        temp = self.temps.allocate(self.frame_bytes)
        _ok(cudart.cudaMemsetAsync(temp, level, self.frame_bytes, self.decode))
        _ok(cudart.cudaEventRecord(self.decoded, self.decode))
        _ok(cudart.cudaStreamWaitEvent(self.archive, self.decoded, 0))
        _ok(cudart.cudaMemcpyAsync(
            self.slots[number % self.length], temp, self.frame_bytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, self.archive))
        self.temps.release(temp)

    def read(self, number):
        frame = np.empty(self.frame_bytes, dtype=np.uint8)
        _ok(cudart.cudaMemcpyAsync(
            frame.ctypes.data, self.slots[number % self.length], self.frame_bytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.archive))
        _ok(cudart.cudaStreamSynchronize(self.archive))
        return frame


def test_history_keeps_levels():
    history = FrameHistory(8 << 20, length=8)
    for number in range(24):
        history.append(number, number)
    for number in range(16, 24):
        assert (history.read(number) == number).all()


if __name__ == "__main__":
    test_history_keeps_levels()
