"""Tiled matrix factors streamed over several lanes with one shared event (cuda-python bindings)."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class HostTile:
    def __init__(self, shape):
        self.nbytes = int(np.prod(shape)) * 4
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_float * (self.nbytes // 4)).from_address(int(self.ptr))
        self.array = np.ctypeslib.as_array(raw).reshape(shape)

    def free(self):
        self.array = None
        check(cudart.cudaFreeHost(self.ptr))


class Lane:
    def __init__(self, tile):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.cupy = cp.cuda.ExternalStream(int(self.stream))
        self.buffer = cp.zeros((tile, tile), dtype=cp.float32)
        self.norm = cp.zeros((), dtype=cp.float32)


class TileStreamer:
    """Uploads tiles on one stream and hands each to the next lane."""

    def __init__(self, tile=1024, lanes=4):
        self.tile = tile
        self.lanes = [Lane(tile) for _ in range(lanes)]
        self.upload = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaDeviceSynchronize())

    def _edge(self, source, target):
        check(cudart.cudaEventRecord(self.event, source))
        check(cudart.cudaStreamWaitEvent(target, self.event, 0))

    def process(self, tiles):
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        for i, host in enumerate(tiles):
            lane = self.lanes[i % len(self.lanes)]
            self._edge(lane.stream, self.upload)
            check(cudart.cudaMemcpyAsync(lane.buffer.data.ptr, host.ptr, host.nbytes, kind, self.upload))
            self._edge(self.upload, lane.stream)
            with lane.cupy:
                lane.norm += cp.square(lane.buffer).sum()
        first = self.lanes[0]
        for lane in self.lanes[1:]:
            self._edge(lane.stream, first.stream)
        with first.cupy:
            total = first.norm.copy()
            for lane in self.lanes[1:]:
                total += lane.norm
        check(cudart.cudaStreamSynchronize(first.stream))
        return float(total)


def main():
    rng = np.random.default_rng(0)
    tiles = [HostTile((1024, 1024)) for _ in range(16)]
    expected = 0.0
    for t in tiles:
        t.array[:] = rng.standard_normal((1024, 1024), dtype=np.float32)
        expected += float(np.square(t.array, dtype=np.float64).sum())
    streamer = TileStreamer()
    print(streamer.process(tiles), expected)
    for t in tiles:
        t.free()


if __name__ == "__main__":
    main()
