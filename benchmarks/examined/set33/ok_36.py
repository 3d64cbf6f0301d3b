import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return values[0] if values else None


def new_event():
    return check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class Block:
    __slots__ = ("ptr", "nbytes", "allocated")

    def __init__(self, ptr: int, nbytes: int, allocated):
        self.ptr = ptr
        self.nbytes = nbytes
        self.allocated = allocated


class BlockPool:
    """Stream-ordered allocations for users on arbitrary streams."""

    def __init__(self):
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))

    def acquire(self, nbytes: int, user_stream) -> Block:
        ptr = int(check(rt.cudaMallocAsync(nbytes, self.stream)))
        event = new_event()
        check(rt.cudaEventRecord(event, self.stream))
        check(rt.cudaStreamWaitEvent(user_stream, event, 0))
        return Block(ptr, nbytes, event)

    def release(self, block: Block, user_stream) -> None:
        used = new_event()
        check(rt.cudaEventRecord(used, user_stream))
        check(rt.cudaStreamWaitEvent(self.stream, used, 0))
        check(rt.cudaFreeAsync(block.ptr, self.stream))
        check(rt.cudaEventDestroy(used))
        check(rt.cudaEventDestroy(block.allocated))


class PinnedArray:
    def __init__(self, nbytes: int):
        self.ptr = int(check(rt.cudaMallocHost(nbytes)))
        raw = (ctypes.c_uint8 * nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=np.uint8)


class RoundTrip:
    """Sends byte blocks through the device on a stream of its own."""

    def __init__(self, pool: BlockPool, nbytes: int):
        self.pool = pool
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.inp = PinnedArray(nbytes)
        self.out = PinnedArray(nbytes)
        self.nbytes = nbytes

    def start(self, payload: np.ndarray) -> None:
        check(rt.cudaStreamSynchronize(self.stream))
        self.inp.array[:] = payload
        kind = rt.cudaMemcpyKind
        block = self.pool.acquire(self.nbytes, self.stream)
        check(rt.cudaMemcpyAsync(block.ptr, self.inp.ptr, self.nbytes, kind.cudaMemcpyHostToDevice, self.stream))
        check(rt.cudaMemcpyAsync(self.out.ptr, block.ptr, self.nbytes, kind.cudaMemcpyDeviceToHost, self.stream))
        self.pool.release(block, self.stream)

    def finish(self) -> np.ndarray:
        check(rt.cudaStreamSynchronize(self.stream))
        return self.out.array.copy()


def main():
    pool = BlockPool()
    lanes = [RoundTrip(pool, 8 << 20) for _ in range(3)]
    for step in range(20):
        for k, lane in enumerate(lanes):
            lane.start(np.full(lane.nbytes, step + k, dtype=np.uint8))
        for k, lane in enumerate(lanes):
            assert (lane.finish() == step + k).all()
    print("ok")


if __name__ == "__main__":
    main()
