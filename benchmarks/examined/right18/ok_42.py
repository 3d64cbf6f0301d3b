"""Interleaves planar channels on the device with two pinned lanes (cuda-python)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(result[0])[1].decode())
    return result[1] if len(result) == 2 else result[1:]


def pinned(count):
    address = int(check(rt.cudaMallocHost(count * 4)))
    raw = (ctypes.c_float * count).from_address(address)
    return address, np.ctypeslib.as_array(raw)


class Lane:
    def __init__(self, count):
        self.in_ptr, self.source = pinned(count)
        self.out_ptr, self.result = pinned(count)
        self.planar = check(rt.cudaMalloc(count * 4))
        self.packed = check(rt.cudaMalloc(count * 4))
        self.done = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.tag = None


class Interleaver:
    def __init__(self, channels, samples):
        self.channels, self.samples = channels, samples
        self.count = channels * samples
        self.lanes = [Lane(self.count) for _ in range(2)]
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.back = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.mixed = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def _start(self, lane, tag, planes):
        lane.source[:] = planes.reshape(-1)
        lane.tag = tag
        nbytes = self.count * 4
        check(rt.cudaStreamWaitEvent(self.stream, lane.done, 0))
        check(rt.cudaMemcpyAsync(lane.planar, lane.in_ptr, nbytes, H2D, self.stream))
        for c in range(self.channels):
            dst = int(lane.packed) + 4 * c
            src = int(lane.planar) + 4 * c * self.samples
            check(
                rt.cudaMemcpy2DAsync(
                    dst, 4 * self.channels, src, 4, 4, self.samples, D2D, self.stream
                )
            )
        check(rt.cudaEventRecord(self.mixed, self.stream))
        check(rt.cudaStreamWaitEvent(self.back, self.mixed, 0))
        check(rt.cudaMemcpyAsync(lane.out_ptr, lane.packed, nbytes, D2H, self.back))
        check(rt.cudaEventRecord(lane.done, self.back))

    def _finish(self, lane):
        check(rt.cudaEventSynchronize(lane.done))
        tag, lane.tag = lane.tag, None
        return tag, lane.result.reshape(self.samples, self.channels).copy()

    def run(self, blocks):
        for lane in self.lanes:
            if lane.tag is not None:
                self._finish(lane)
        number = -1
        for number, planes in enumerate(blocks):
            lane = self.lanes[number % 2]
            if lane.tag is not None:
                yield self._finish(lane)
            self._start(lane, number, np.asarray(planes, dtype=np.float32))
        for step in (1, 2):
            lane = self.lanes[(number + step) % 2]
            if lane.tag is not None:
                yield self._finish(lane)

    def close(self):
        check(rt.cudaStreamSynchronize(self.stream))
        check(rt.cudaStreamSynchronize(self.back))
        for lane in self.lanes:
            for ptr in (lane.planar, lane.packed):
                check(rt.cudaFree(ptr))
            for ptr in (lane.in_ptr, lane.out_ptr):
                check(rt.cudaFreeHost(ptr))
        self.lanes = []
