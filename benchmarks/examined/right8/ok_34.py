"""cudaLaunchHostFunc signals per-slot semaphores for a logging ring."""
import ctypes
import threading

import numpy as np
from cuda.bindings import runtime as rt

HOSTFN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def check(ret):
    err, *rest = ret
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class LogSlot:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.host = int(check(rt.cudaMallocHost(nbytes)))
        self.view = np.frombuffer((ctypes.c_ubyte * nbytes).from_address(self.host), np.uint8)
        self.arrived = threading.Semaphore(0)
        self._thunk = HOSTFN(lambda _: self.arrived.release())
        self.fn = rt.cudaHostFn_t(ctypes.cast(self._thunk, ctypes.c_void_p).value)


class DeviceLog:
    def __init__(self, nbytes, slots=4):
        self.nbytes = nbytes
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.device = int(check(rt.cudaMalloc(nbytes)))
        self.slots = [LogSlot(nbytes) for _ in range(slots)]
        self.head = self.tail = 0

    def _pop(self):
        slot = self.slots[self.tail % len(self.slots)]
        self.tail += 1
        slot.arrived.acquire()
        return int(slot.view.astype(np.int64).sum())

    def record(self, value):
        popped = self._pop() if self.head - self.tail == len(self.slots) else None
        slot = self.slots[self.head % len(self.slots)]
        self.head += 1
        check(rt.cudaMemsetAsync(self.device, value, self.nbytes, self.stream))
        check(rt.cudaMemcpyAsync(slot.host, self.device, self.nbytes,
                                 rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
        check(rt.cudaLaunchHostFunc(self.stream, slot.fn, 0))
        return popped

    def flush(self):
        while self.tail < self.head:
            yield self._pop()

    def close(self):
        check(rt.cudaStreamSynchronize(self.stream))
        check(rt.cudaStreamDestroy(self.stream))
        check(rt.cudaFree(self.device))
        for slot in self.slots:
            slot.view = None
            check(rt.cudaFreeHost(slot.host))


if __name__ == "__main__":
    log = DeviceLog(4096)
    seen = [s for v in range(10) if (s := log.record(v)) is not None]
    seen += log.flush()
    log.close()
    print(seen)
