import ctypes

import numpy as np
from cuda import cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def ck(res):
    err, *vals = res
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return vals[0] if vals else None


def pinned(n):
    ptr = ck(cudart.cudaMallocHost(n))
    return np.frombuffer((ctypes.c_uint8 * n).from_address(ptr), dtype=np.uint8)


class Relay:
    """Forwards encoded frames through device memory, one block for each frame."""

    def __init__(self, frame_bytes):
        self.n = frame_bytes
        self.ingest = ck(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.egress = ck(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.uploaded = ck(cudart.cudaEventCreate())
        self.consumed = ck(cudart.cudaEventCreate())

    def push(self, src, dst):
        dev = ck(cudart.cudaMallocAsync(self.n, self.ingest))
        ck(cudart.cudaMemcpyAsync(dev, src.ctypes.data, self.n, H2D, self.ingest))
        ck(cudart.cudaEventRecord(self.uploaded, self.ingest))
        ck(cudart.cudaStreamWaitEvent(self.egress, self.uploaded, 0))
        ck(cudart.cudaMemcpyAsync(dst.ctypes.data, dev, self.n, D2H, self.egress))
        ck(cudart.cudaEventRecord(self.consumed, self.egress))
        ck(cudart.cudaStreamWaitEvent(self.ingest, self.consumed, 0))
        ck(cudart.cudaFreeAsync(dev, self.ingest))

    def flush(self):
        ck(cudart.cudaStreamSynchronize(self.egress))
        ck(cudart.cudaStreamSynchronize(self.ingest))


def main(frames=16, n=1 << 20):
    relay = Relay(n)
    src = [pinned(n) for _ in range(frames)]
    dst = [pinned(n) for _ in range(frames)]
    for i in range(frames):
        src[i][:] = i
        relay.push(src[i], dst[i])
    relay.flush()
    print(all((d == i).all() for i, d in enumerate(dst)))


if __name__ == "__main__":
    main()
