"""Timestamps of frames that have reached the device, taken in host functions."""
import ctypes
import time

import numpy as np
from cuda.bindings import runtime as cudart

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FRAME = 1 << 23


def check(result):
    err, *values = result
    if int(err):
        raise RuntimeError(str(err))
    return values[0] if values else None


class FrameClock:
    def __init__(self):
        self.stamps = {}

    def mark(self, stream, frame):
        def stamp(_):
            self.stamps[frame] = time.perf_counter()

        entry = CALLBACK(stamp)
        address = ctypes.cast(entry, ctypes.c_void_p).value
        check(cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(address), 0))


class FrameSink:
    def __init__(self, slots=4):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.host = [check(cudart.cudaMallocHost(FRAME)) for _ in range(slots)]
        self.device = [check(cudart.cudaMalloc(FRAME)) for _ in range(slots)]
        self.events = [check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
                       for _ in range(slots)]
        self.clock = FrameClock()

    def _view(self, slot):
        raw = (ctypes.c_ubyte * FRAME).from_address(int(self.host[slot]))
        return np.frombuffer(raw, np.uint8)

    def put(self, number, frame):
        slot = number % len(self.host)
        check(cudart.cudaEventSynchronize(self.events[slot]))
        self._view(slot)[:] = frame
        check(cudart.cudaMemcpyAsync(self.device[slot], self.host[slot], FRAME,
                                     cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
        check(cudart.cudaEventRecord(self.events[slot], self.stream))
        self.clock.mark(self.stream, number)

    def finish(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        return [self.clock.stamps[k] for k in sorted(self.clock.stamps)]


def main(frames=64):
    rng = np.random.default_rng(55)
    sink = FrameSink()
    for number in range(frames):
        sink.put(number, rng.integers(0, 256, FRAME, dtype=np.uint8))
    print(np.diff(sink.finish()))


if __name__ == "__main__":
    main()
