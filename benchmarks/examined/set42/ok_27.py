"""Growable device vector on stream-ordered allocations (cuda.bindings)."""
from cuda.bindings import driver


def check(result):
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else None


class StreamVector:
    """Doubles its storage; old storage is returned as soon as it was copied."""

    def __init__(self, capacity: int, stream):
        self.stream = stream
        self.capacity = capacity
        self.size = 0
        self.ptr = check(driver.cuMemAllocAsync(capacity, stream))

    def _grow(self, nbytes: int):
        new_capacity = max(nbytes, 2 * self.capacity)
        new_ptr = check(driver.cuMemAllocAsync(new_capacity, self.stream))
        check(driver.cuMemcpyDtoDAsync(new_ptr, self.ptr, self.size, self.stream))
        check(driver.cuMemFreeAsync(self.ptr, self.stream))
        self.ptr, self.capacity = new_ptr, new_capacity

    def fill(self, value: int, words: int):
        nbytes = 4 * words
        if self.size + nbytes > self.capacity:
            self._grow(self.size + nbytes)
        check(driver.cuMemsetD32Async(int(self.ptr) + self.size, value, words, self.stream))
        self.size += nbytes

    def hand_over(self, other):
        """Moves the vector to another stream; later frees are queued there."""
        event = check(
            driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        )
        check(driver.cuEventRecord(event, self.stream))
        check(driver.cuStreamWaitEvent(other, event, 0))
        check(driver.cuEventDestroy(event))
        self.stream = other

    def checksum_into(self, out_ptr):
        check(driver.cuMemcpyDtoDAsync(out_ptr, self.ptr, 4, self.stream))

    def close(self):
        check(driver.cuMemFreeAsync(self.ptr, self.stream))
        self.ptr = None


def make_stream():
    return check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))


def main():
    check(driver.cuInit(0))
    dev = check(driver.cuDeviceGet(0))
    ctx = check(driver.cuDevicePrimaryCtxRetain(dev))
    check(driver.cuCtxSetCurrent(ctx))
    produce, consume = make_stream(), make_stream()
    heads = check(driver.cuMemAlloc(4 * 8))
    for round_ in range(8):
        vec = StreamVector(1 << 20, produce)
        for i in range(16):
            vec.fill(round_ + i, 1 << 18)
        vec.hand_over(consume)
        for i in range(4):
            vec.fill(100 + i, 1 << 18)
        vec.checksum_into(int(heads) + 4 * round_)
        vec.close()
    out = bytearray(4 * 8)
    check(driver.cuStreamSynchronize(consume))
    check(driver.cuMemcpyDtoH(out, heads, len(out)))
    check(driver.cuMemFree(heads))
    for s in (produce, consume):
        check(driver.cuStreamDestroy(s))
    check(driver.cuDevicePrimaryCtxRelease(dev))
    print([out[4 * i] for i in range(8)])


if __name__ == "__main__":
    main()
