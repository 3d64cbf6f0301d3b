"""An explicitly built CUDA graph that tiles one frame into a mosaic."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def call(fn, *args):
    err, *rest = fn(*args)
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{fn.__name__}: {err}")
    return rest[0] if rest else None


class PinnedFloats:
    def __init__(self, count):
        self.count = count
        self.ptr = int(call(rt.cudaHostAlloc, count * 4, rt.cudaHostAllocDefault))
        self.view = np.frombuffer((ctypes.c_float * count).from_address(self.ptr), np.float32)


class MosaicGraph:
    def __init__(self, pixels, copies):
        self.pixels, self.copies = pixels, copies
        nbytes = pixels * 4
        self.inbox = PinnedFloats(pixels)
        self.outbox = PinnedFloats(pixels * copies)
        self.frame = call(rt.cudaMalloc, nbytes)
        self.mosaic = call(rt.cudaMalloc, nbytes * copies)
        self.stream = call(rt.cudaStreamCreateWithFlags, rt.cudaStreamNonBlocking)
        self.graph = call(rt.cudaGraphCreate, 0)

        load = self._copy([], self.frame, self.inbox.ptr, nbytes, H2D)
        tiles = [
            self._copy([load], self.mosaic + k * nbytes, self.frame, nbytes, D2D)
            for k in range(copies)
        ]
        half = copies // 2
        if half:
            self._copy(tiles[:half], self.outbox.ptr, self.mosaic, half * nbytes, D2H)
        self._copy(tiles[half:], self.outbox.ptr + half * nbytes, self.mosaic + half * nbytes,
                   (copies - half) * nbytes, D2H)
        self.exec = call(rt.cudaGraphInstantiate, self.graph, 0)
        self.running = False

    def _copy(self, after, dst, src, nbytes, kind):
        return call(rt.cudaGraphAddMemcpyNode1D, self.graph, after or None, len(after),
                    dst, src, nbytes, kind)

    def start(self, frame):
        if frame.size != self.pixels:
            raise ValueError("wrong frame size")
        self.wait()
        self.inbox.view[:] = frame.ravel()
        call(rt.cudaGraphLaunch, self.exec, self.stream)
        self.running = True

    def wait(self):
        if self.running:
            call(rt.cudaStreamSynchronize, self.stream)
            self.running = False

    def result(self):
        self.wait()
        return self.outbox.view.reshape(self.copies, self.pixels).copy()

    def close(self):
        self.wait()
        call(rt.cudaGraphExecDestroy, self.exec)
        call(rt.cudaGraphDestroy, self.graph)
        call(rt.cudaStreamDestroy, self.stream)
        for ptr in (self.frame, self.mosaic):
            call(rt.cudaFree, ptr)
        for box in (self.inbox, self.outbox):
            box.view = None
            call(rt.cudaFreeHost, box.ptr)


def main():
    mosaic = MosaicGraph(pixels=64 * 64, copies=5)
    try:
        for seed in range(10):
            frame = np.random.default_rng(seed).random((64, 64), dtype=np.float32)
            mosaic.start(frame)
            weight = float(frame.sum())
            tiles = mosaic.result()
            assert np.allclose(tiles.sum(axis=1), weight, rtol=1e-3)
    finally:
        mosaic.close()


if __name__ == "__main__":
    main()
