"""Matrix transposition service on the stream-ordered allocator of the runtime."""
import ctypes
from collections import deque

import numpy as np
from cuda.bindings import runtime as rt


def _check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"runtime call failed: {err}")
    return values[0] if values else None


def new_stream():
    return _check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))


def new_event():
    return _check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))


class PinnedArray:
    def __init__(self, shape, dtype=np.float32):
        count = int(np.prod(shape))
        nbytes = count * np.dtype(dtype).itemsize
        self.ptr = int(_check(rt.cudaMallocHost(nbytes)))
        raw = (ctypes.c_ubyte * nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)
        self.nbytes = nbytes


class Job:
    def __init__(self, rows, columns):
        self.source = PinnedArray((rows, columns))
        self.target = PinnedArray((columns, rows))
        self.uploaded = new_event()
        self.gathered = new_event()
        self.finished = new_event()


class Transposer:
    """Upload, column gather and download run on three streams."""

    def __init__(self, rows, columns, depth=4):
        self.rows, self.columns = rows, columns
        self.up, self.work, self.down = new_stream(), new_stream(), new_stream()
        self.idle = deque(Job(rows, columns) for _ in range(depth))
        self.running = deque()

    def submit(self, matrix):
        result = None if self.idle else self.collect()
        job = self.idle.popleft()
        job.source.array[...] = matrix
        kinds = rt.cudaMemcpyKind
        nbytes, item = job.source.nbytes, 4

        src = _check(rt.cudaMallocAsync(nbytes, self.up))
        _check(rt.cudaMemcpyAsync(src, job.source.ptr, nbytes, kinds.cudaMemcpyHostToDevice, self.up))
        _check(rt.cudaEventRecord(job.uploaded, self.up))

        dst = _check(rt.cudaMallocAsync(nbytes, self.work))
        _check(rt.cudaStreamWaitEvent(self.work, job.uploaded, 0))
        for column in range(self.columns):
            _check(rt.cudaMemcpy2DAsync(
                int(dst) + column * self.rows * item, item,
                int(src) + column * item, self.columns * item,
                item, self.rows, kinds.cudaMemcpyDeviceToDevice, self.work))
        _check(rt.cudaFreeAsync(src, self.work))
        _check(rt.cudaEventRecord(job.gathered, self.work))

        _check(rt.cudaStreamWaitEvent(self.down, job.gathered, 0))
        _check(rt.cudaMemcpyAsync(job.target.ptr, dst, nbytes, kinds.cudaMemcpyDeviceToHost, self.down))
        _check(rt.cudaFreeAsync(dst, self.down))
        _check(rt.cudaEventRecord(job.finished, self.down))
        self.running.append(job)
        return result

    def collect(self):
        job = self.running.popleft()
        _check(rt.cudaEventSynchronize(job.finished))
        result = job.target.array.copy()
        self.idle.append(job)
        return result

    def drain(self):
        while self.running:
            yield self.collect()


def transpose_all(matrices):
    service = Transposer(*matrices[0].shape)
    results = [r for r in map(service.submit, matrices) if r is not None]
    results.extend(service.drain())
    return results


if __name__ == "__main__":
    _check(rt.cudaSetDevice(0))
    rng = np.random.default_rng(3)
    inputs = [rng.random((4096, 64), dtype=np.float32) for _ in range(10)]
    for a, b in zip(inputs, transpose_all(inputs)):
        assert np.array_equal(a.T, b)
    print("ok")
