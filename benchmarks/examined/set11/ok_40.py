"""Streams results to a writer thread with host functions of the stream and a ring of pinned buffers."""
import queue
import threading
from typing import BinaryIO, List, Optional

import cupy as cp
import cupyx
import numpy as np

_step = cp.ElementwiseKernel(
    "float64 x, float64 y, float64 r", "float64 xo, float64 yo",
    "xo = 1.0 - r * x * x + y; yo = 0.3 * x;", "henon",
)


class RingWriter:
    """A slot is free again only when the writer thread has written it."""

    def __init__(self, out: BinaryIO, elems: int, depth: int = 3):
        self.buffers: List[np.ndarray] = [cupyx.empty_pinned((elems,), dtype=np.float64) for _ in range(depth)]
        self.free: "queue.Queue[int]" = queue.Queue()
        self.full: "queue.Queue[Optional[int]]" = queue.Queue()
        for slot in range(depth):
            self.free.put(slot)
        self.out = out
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        while True:
            slot = self.full.get()
            if slot is None:
                return
            self.out.write(self.buffers[slot].tobytes())
            self.free.put(slot)

    def push(self, array: cp.ndarray, stream: cp.cuda.Stream) -> None:
        slot = self.free.get()
        buffer = self.buffers[slot]
        array.data.copy_to_host_async(buffer.ctypes.data, buffer.nbytes, stream)
        # runs behind the copy, in the order of the stream
        stream.launch_host_func(self.full.put, slot)

    def close(self, stream: cp.cuda.Stream) -> None:
        stream.synchronize()
        self.full.put(None)
        self.thread.join()


class MapIterator:
    def __init__(self, x0: np.ndarray, y0: np.ndarray, r: float):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.r = r
        with self.stream:
            self.x, self.y = cp.asarray(x0), cp.asarray(y0)
            self.x_next, self.y_next = cp.empty_like(self.x), cp.empty_like(self.y)

    def advance(self) -> None:
        with self.stream:
            _step(self.x, self.y, self.r, self.x_next, self.y_next)
        self.x, self.x_next = self.x_next, self.x
        self.y, self.y_next = self.y_next, self.y


def record_orbit(path: str, x0: np.ndarray, y0: np.ndarray, r: float, steps: int, every: int) -> None:
    iterator = MapIterator(x0, y0, r)
    with open(path, "wb") as out:
        writer = RingWriter(out, x0.size)
        for step in range(steps):
            iterator.advance()
            if step % every == 0:
                writer.push(iterator.x, iterator.stream)
        writer.close(iterator.stream)
