"""Progress reports from inside a stream through cudaLaunchHostFunc."""
import ctypes
import threading

import numpy as np
from cuda.bindings import runtime as cudart

HOSTFN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CHUNK = 1 << 22


def ok(ret):
    if int(ret[0]):
        raise RuntimeError(str(ret[0]))
    return ret[1] if len(ret) == 2 else None


class Progress:
    def __init__(self, total):
        self.total = total
        self.done = 0
        self.lock = threading.Lock()
        self._callbacks = []

    def enqueue(self, stream):
        def report(_):
            with self.lock:
                self.done += 1

        callback = HOSTFN(report)
        self._callbacks.append(callback)
        pointer = ctypes.cast(callback, ctypes.c_void_p).value
        ok(cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(pointer), 0))


class Uploader:
    def __init__(self, chunks):
        self.stream = ok(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.progress = Progress(chunks)
        self.device = ok(cudart.cudaMalloc(CHUNK * chunks))
        self.host = ok(cudart.cudaMallocHost(CHUNK * chunks))
        raw = (ctypes.c_ubyte * (CHUNK * chunks)).from_address(int(self.host))
        self.bytes = np.frombuffer(raw, np.uint8)

    def send(self, chunks):
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        for k, chunk in enumerate(chunks):
            self.bytes[k * CHUNK:(k + 1) * CHUNK] = chunk
            ok(cudart.cudaMemcpyAsync(int(self.device) + k * CHUNK, int(self.host) + k * CHUNK,
                                      CHUNK, kind, self.stream))
            self.progress.enqueue(self.stream)

    def close(self):
        ok(cudart.cudaStreamSynchronize(self.stream))
        ok(cudart.cudaFreeHost(self.host))
        ok(cudart.cudaFree(self.device))
        ok(cudart.cudaStreamDestroy(self.stream))


def main(count=32):
    rng = np.random.default_rng(54)
    uploader = Uploader(count)
    uploader.send(rng.integers(0, 256, CHUNK, dtype=np.uint8) for _ in range(count))
    uploader.close()
    print(uploader.progress.done, "of", uploader.progress.total)


if __name__ == "__main__":
    main()
