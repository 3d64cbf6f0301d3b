"""Columnar upload path: host segments go to the device through two page-locked staging areas."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
STAGE_BYTES = 4 << 20


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


class Stage:
    def __init__(self):
        self.ptr = int(check(cudart.cudaMallocHost(STAGE_BYTES)))
        raw = (ctypes.c_ubyte * STAGE_BYTES).from_address(self.ptr)
        self.view = np.frombuffer(raw, dtype=np.uint8)
        self.event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.pending = False

    def acquire(self):
        if self.pending:
            check(cudart.cudaEventSynchronize(self.event))
            self.pending = False
        return self.view

    def submit(self, dst, nbytes, stream):
        check(cudart.cudaMemcpyAsync(dst, self.ptr, nbytes, H2D, stream))
        check(cudart.cudaEventRecord(self.event, stream))
        self.pending = True


class Uploader:
    """Copies lanes (columns) of a row segment into one device allocation."""

    def __init__(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.stages = [Stage(), Stage()]
        self.turn = 0

    def _next(self):
        stage = self.stages[self.turn]
        self.turn ^= 1
        return stage

    def upload_lane(self, lane, dst):
        raw = np.ascontiguousarray(lane).view(np.uint8).reshape(-1)
        for start in range(0, raw.size, STAGE_BYTES):
            span = raw[start : start + STAGE_BYTES]
            stage = self._next()
            stage.acquire()[: span.size] = span
            stage.submit(dst + start, span.size, self.stream)

    def upload_rows(self, lanes):
        sizes = [lane.nbytes for lane in lanes]
        base = int(check(cudart.cudaMallocAsync(sum(sizes), self.stream)))
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        for lane, offset in zip(lanes, offsets):
            self.upload_lane(lane, base + int(offset))
        return base, [int(o) for o in offsets]

    def download(self, ptr, like):
        nbytes = like.nbytes
        host = int(check(cudart.cudaMallocHost(nbytes)))
        check(cudart.cudaMemcpyAsync(host, ptr, nbytes, D2H, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        raw = (ctypes.c_ubyte * nbytes).from_address(host)
        out = np.frombuffer(raw, dtype=like.dtype).reshape(like.shape).copy()
        check(cudart.cudaFreeHost(host))
        return out

    def free(self, ptr):
        check(cudart.cudaFreeAsync(ptr, self.stream))


def main():
    check(cudart.cudaSetDevice(0))
    rng = np.random.default_rng(2)
    up = Uploader()
    for segment in range(8):
        lanes = [
            rng.integers(0, 1 << 40, 2_000_000),
            rng.random(2_000_000),
            rng.integers(0, 2, 2_000_000, dtype=np.uint8),
        ]
        base, offsets = up.upload_rows(lanes)
        for lane, offset in zip(lanes, offsets):
            assert np.array_equal(up.download(base + offset, lane), lane), segment
        up.free(base)


if __name__ == "__main__":
    main()
