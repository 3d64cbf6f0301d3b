"""Stream-ordered scratch memory shared by a producer and a consumer (cuda.bindings)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1].decode())
    return values[0] if len(values) == 1 else None


class Pinned:
    def __init__(self, count: int):
        self.nbytes = 4 * count
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype=np.float32)

    def free(self) -> None:
        check(cudart.cudaFreeHost(self.ptr))


class Relay:
    """upload stream: allocate, fill, free.  drain stream: copy out."""

    def __init__(self, count: int):
        self.nbytes = 4 * count
        self.upload = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.drain = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        flags = cudart.cudaEventDisableTiming
        self.filled = check(cudart.cudaEventCreateWithFlags(flags))
        self.drained = check(cudart.cudaEventCreateWithFlags(flags))
        self.store = check(cudart.cudaMalloc(self.nbytes))

    def submit(self, source: Pinned, target: Pinned) -> None:
        """Both host areas belong to the relay until finish() returns."""
        scratch = check(cudart.cudaMallocAsync(self.nbytes, self.upload))
        check(cudart.cudaMemcpyAsync(scratch, source.ptr, self.nbytes, H2D, self.upload))
        check(cudart.cudaEventRecord(self.filled, self.upload))
        check(cudart.cudaStreamWaitEvent(self.drain, self.filled, 0))
        check(cudart.cudaMemcpyAsync(self.store, scratch, self.nbytes, D2D, self.drain))
        check(cudart.cudaEventRecord(self.drained, self.drain))
        check(cudart.cudaMemcpyAsync(target.ptr, self.store, self.nbytes, D2H, self.drain))
        check(cudart.cudaStreamWaitEvent(self.upload, self.drained, 0))
        check(cudart.cudaFreeAsync(scratch, self.upload))

    def finish(self) -> None:
        check(cudart.cudaStreamSynchronize(self.drain))

    def close(self) -> None:
        check(cudart.cudaStreamSynchronize(self.upload))
        check(cudart.cudaStreamSynchronize(self.drain))
        check(cudart.cudaEventDestroy(self.filled))
        check(cudart.cudaEventDestroy(self.drained))
        check(cudart.cudaFree(self.store))
        check(cudart.cudaStreamDestroy(self.upload))
        check(cudart.cudaStreamDestroy(self.drain))


def roundtrip(count: int, rounds: int) -> float:
    relay = Relay(count)
    sources = [Pinned(count) for _ in range(rounds)]
    targets = [Pinned(count) for _ in range(rounds)]
    try:
        for i, (src, dst) in enumerate(zip(sources, targets)):
            src.array[:] = float(i)
            dst.array[:] = -1.0
            relay.submit(src, dst)
        relay.finish()
        return max(float(np.abs(s.array - t.array).max()) for s, t in zip(sources, targets))
    finally:
        relay.close()
        for area in sources + targets:
            area.free()


def main() -> None:
    check(cudart.cudaSetDevice(0))
    print("largest difference", roundtrip(count=1 << 22, rounds=8))


if __name__ == "__main__":
    main()
