import numpy as np
from cuda.bindings import runtime


def check(result):
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


KIND = runtime.cudaMemcpyKind


class DeviceLog:
    """Append-only byte log in device memory, written on one stream and read on another."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.base = int(check(runtime.cudaMalloc(capacity)))
        self.writer = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
        self.reader = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
        self.written = check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
        self.read = check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
        self.size = 0

    def reserve(self, count):
        if self.size + count > self.capacity:
            raise BufferError("log is full")
        offset = self.size
        self.size += count
        return offset

    def fill(self, value, count):
        offset = self.reserve(count)
        check(runtime.cudaMemsetAsync(self.base + offset, value, count, self.writer))
        check(runtime.cudaEventRecord(self.written, self.writer))
        return offset

    def repeat(self, start, count):
        if start + count > self.size:
            raise IndexError("range is not in the log")
        offset = self.reserve(count)
        check(runtime.cudaMemcpyAsync(self.base + offset, self.base + start, count,
                                      KIND.cudaMemcpyDeviceToDevice, self.writer))
        check(runtime.cudaEventRecord(self.written, self.writer))
        return offset

    def fetch(self, start, count):
        if start + count > self.size:
            raise IndexError("range is not in the log")
        out = np.empty(count, dtype=np.uint8)
        if count:
            check(runtime.cudaStreamWaitEvent(self.reader, self.written, 0))
            check(runtime.cudaMemcpyAsync(out.ctypes.data, self.base + start, count,
                                          KIND.cudaMemcpyDeviceToHost, self.reader))
            check(runtime.cudaEventRecord(self.read, self.reader))
        return out

    def digest(self, block=4096):
        total = 0
        for start in range(0, self.size, block):
            piece = self.fetch(start, min(block, self.size - start))
            total = (total * 31 + int(piece.sum(dtype=np.int64))) % (1 << 61)
        return total

    def clear(self):
        check(runtime.cudaStreamWaitEvent(self.writer, self.read, 0))
        self.size = 0

    def close(self):
        for stream in (self.writer, self.reader):
            check(runtime.cudaStreamSynchronize(stream))
            check(runtime.cudaStreamDestroy(stream))
        check(runtime.cudaEventDestroy(self.written))
        check(runtime.cudaEventDestroy(self.read))
        check(runtime.cudaFree(self.base))


def main():
    log = DeviceLog(1 << 22)
    try:
        print(log.fetch(0, 0).size, log.digest())
        for round_number in range(3):
            first = log.fill(round_number + 1, 10_000)
            second = log.repeat(first + 100, 5_000)
            third = log.fill(200, 1)
            tail = log.fetch(second + 4_990, 11)
            print(tail.tolist(), log.digest(), third)
            if round_number == 1:
                log.clear()
        try:
            log.fill(0, 1 << 23)
        except BufferError as exc:
            print(exc)
    finally:
        log.close()


if __name__ == "__main__":
    main()
