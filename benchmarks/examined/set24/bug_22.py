"""Image subscriber that shows frames published in device memory."""
import ctypes

import numpy as np
from cuda import cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if rest else None


class FrameSlot:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMalloc(nbytes))
        self.ready = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class JuliaPublisher:
    def __init__(self, height, width):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.slot = FrameSlot(height * width)
        self.scratch = check(cudart.cudaMalloc(height * width))

    def publish(self, step):
        n = self.slot.nbytes
        check(cudart.cudaMemsetAsync(self.scratch, step & 0xFF, n, self.stream))
        check(cudart.cudaMemcpyAsync(self.slot.ptr, self.scratch, n,
              cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, self.stream))
        check(cudart.cudaEventRecord(self.slot.ready, self.stream))
        return self.slot


class JuliaSubscriber:
    def __init__(self, height, width, use_pinned_host=False):
        self.shape = (height, width)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.pinned = None
        if use_pinned_host:
            ptr = check(cudart.cudaMallocHost(height * width))
            buf = (ctypes.c_uint8 * (height * width)).from_address(ptr)
            self.pinned = np.frombuffer(buf, dtype=np.uint8).reshape(self.shape)
        self.fallback = np.zeros(self.shape, dtype=np.uint8)

    def on_image(self, slot):
        check(cudart.cudaStreamWaitEvent(self.stream, slot.ready, 0))
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        if self.pinned is not None:
            check(cudart.cudaMemcpyAsync(self.pinned.ctypes.data, slot.ptr, slot.nbytes, kind, self.stream))
            check(cudart.cudaStreamSynchronize(self.stream))
            return self.pinned
        check(cudart.cudaMemcpy(self.fallback.ctypes.data, slot.ptr, slot.nbytes, kind))
        return self.fallback


def main():
    pub = JuliaPublisher(1080, 1920)
    sub = JuliaSubscriber(1080, 1920)
    for step in range(200):
        image = sub.on_image(pub.publish(step))
        print(step, int(image.max()))


if __name__ == "__main__":
    main()
