"""Chunked log-energy accumulation with per-slot streams."""
from typing import Iterable, List

import cupy
import numpy


def pinned_array(shape, dtype) -> numpy.ndarray:
    count = int(numpy.prod(shape))
    memory = cupy.cuda.alloc_pinned_memory(count * numpy.dtype(dtype).itemsize)
    return numpy.frombuffer(memory, dtype, count).reshape(shape)


class Slot:
    def __init__(self, rows: int, width: int):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.host = pinned_array((rows, width), numpy.float32)
        with self.stream:
            self.dev = cupy.empty((rows, width), cupy.float32)
            self.window = cupy.hanning(width).astype(cupy.float32)
            self.total = cupy.zeros(width, cupy.float64)
        self.rows = 0


class EnergyAccumulator:
    def __init__(self, rows: int, width: int, slots: int = 3):
        self.capacity = rows
        self.width = width
        self.slots: List[Slot] = [Slot(rows, width) for _ in range(slots)]
        self.turn = 0

    def add(self, chunk: numpy.ndarray) -> None:
        n = len(chunk)
        if n == 0:
            return
        if n > self.capacity or chunk.shape[1] != self.width:
            raise ValueError(f"unexpected chunk shape {chunk.shape}")
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        slot.stream.synchronize()
        slot.host[:n] = chunk
        with slot.stream:
            slot.dev[:n].set(slot.host[:n], stream=slot.stream)
            shaped = slot.dev[:n] * slot.window
            slot.total += cupy.log1p(cupy.square(shaped)).sum(axis=0)
        slot.rows += n

    def mean(self) -> numpy.ndarray:
        total = numpy.zeros(self.width)
        rows = 0
        for slot in self.slots:
            with slot.stream:
                total += slot.total.get()
            rows += slot.rows
        return total / max(rows, 1)

    def reset(self) -> None:
        for slot in self.slots:
            with slot.stream:
                slot.total.fill(0)
            slot.rows = 0

    def close(self) -> None:
        for slot in self.slots:
            slot.stream.synchronize()


def energy_of(chunks: Iterable[numpy.ndarray], rows: int, width: int) -> numpy.ndarray:
    accumulator = EnergyAccumulator(rows, width)
    try:
        for chunk in chunks:
            accumulator.add(chunk)
        return accumulator.mean()
    finally:
        accumulator.close()
