"""Chunked uploads of large host arrays through a ring of page-locked staging slots."""
import time

import cupy as cp
import cupyx
import numpy as np


class StagingSlot:
    def __init__(self, nbytes):
        self.buffer = cupyx.empty_pinned(nbytes, dtype=np.uint8)
        self.copied = cp.cuda.Event(disable_timing=True)
        self.complete = True


def _mark_complete(slot):
    slot.complete = True


class StagingRing:
    """Hands out slots in order; a slot retires when its upload has completed."""

    def __init__(self, num_slots, slot_bytes):
        self.slot_bytes = slot_bytes
        self.slots = [StagingSlot(slot_bytes) for _ in range(num_slots)]
        self.cursor = 0
        self.spins = 0

    def acquire(self):
        slot = self.slots[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.slots)
        while not (slot.complete or slot.copied.done):
            self.spins += 1
            time.sleep(0)
        slot.complete = False
        return slot

    def retire(self, slot, stream):
        slot.copied.record(stream)
        stream.launch_host_func(_mark_complete, slot)


class TransferPlan:
    """Moves NumPy arrays to device arrays chunk by chunk."""

    def __init__(self, stream, num_slots=4, slot_bytes=1 << 22):
        self.stream = stream
        self.ring = StagingRing(num_slots, slot_bytes)

    def upload(self, dst, src):
        flat = np.ascontiguousarray(src).view(np.uint8).reshape(-1)
        step = self.ring.slot_bytes
        for start in range(0, flat.size, step):
            part = flat[start:start + step]
            slot = self.ring.acquire()
            slot.buffer[: part.size] = part
            cp.cuda.runtime.memcpyAsync(
                dst.data.ptr + start, slot.buffer.ctypes.data, part.size,
                cp.cuda.runtime.memcpyHostToDevice, self.stream.ptr)
            self.ring.retire(slot, self.stream)


class TaskGraph:
    """Uploads its inputs, runs one kernel and keeps the output on the device."""

    def __init__(self, stream, rows, cols):
        self.stream = stream
        self.plan = TransferPlan(stream)
        with stream:
            self.matrix = cp.empty((rows, cols), dtype=cp.float32)
            self.vector = cp.empty(cols, dtype=cp.float32)
            self.result = cp.empty(rows, dtype=cp.float32)

    def execute(self, matrix, vector):
        self.plan.upload(self.matrix, matrix)
        self.plan.upload(self.vector, vector)
        with self.stream:
            cp.matmul(self.matrix, self.vector, out=self.result)
        return self.result


def run(matrices, vectors):
    stream = cp.cuda.Stream(non_blocking=True)
    rows, cols = matrices[0].shape
    graph = TaskGraph(stream, rows, cols)
    outputs = []
    for matrix, vector in zip(matrices, vectors):
        result = graph.execute(matrix.astype(np.float32), vector.astype(np.float32))
        outputs.append(result.get(stream=stream))
    return outputs
