"""Tile producer and consumer streams that share pool-allocated arrays."""
import collections
from typing import Deque, List, Tuple

import cupy
import numpy


class TileMixer:
    def __init__(self, basis: numpy.ndarray, window: int = 8):
        self.make = cupy.cuda.Stream(non_blocking=True)
        self.mix = cupy.cuda.Stream(non_blocking=True)
        with self.make:
            self.basis = cupy.asarray(basis, dtype=cupy.float32)
        self.make.synchronize()
        with self.mix:
            self.total = cupy.zeros(basis.shape, cupy.float32)
        self.window = window
        self.retired: Deque[Tuple[cupy.cuda.Event, cupy.ndarray]] = collections.deque()

    def _produce(self, seed: int, rows: int) -> Tuple[cupy.ndarray, cupy.cuda.Event]:
        ready = cupy.cuda.Event(disable_timing=True)
        with self.make:
            phase = cupy.arange(rows * self.basis.size, dtype=cupy.float32)
            noise = cupy.sin(phase * numpy.float32(0.37 * (seed + 1)))
            tile = noise.reshape(rows, *self.basis.shape) * self.basis
            ready.record(self.make)
        return tile, ready

    def _retire(self, tile: cupy.ndarray) -> None:
        event = cupy.cuda.Event(disable_timing=True)
        event.record(self.mix)
        self.retired.append((event, tile))
        while self.retired and self.retired[0][0].done:
            self.retired.popleft()
        if len(self.retired) > self.window:
            self.retired[0][0].synchronize()
            self.retired.popleft()

    def step(self, seed: int, rows: int) -> None:
        tile, ready = self._produce(seed, rows)
        self.mix.wait_event(ready)
        try:
            with self.mix:
                power = cupy.square(tile).sum(axis=0)
                self.total += power / numpy.float32(rows)
        finally:
            self._retire(tile)

    def result(self) -> numpy.ndarray:
        with self.mix:
            out = self.total.get()
        self.retired.clear()
        return out

    def __del__(self):
        if hasattr(self, "retired"):
            self.make.synchronize()
            self.mix.synchronize()


def mixed_power(basis: numpy.ndarray, seeds: List[int], rows: int) -> numpy.ndarray:
    mixer = TileMixer(basis)
    for seed in seeds:
        mixer.step(seed, rows)
    return mixer.result()
