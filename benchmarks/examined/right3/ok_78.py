"""Frame encoder output drained to disk with asynchronous CuPy downloads."""
from collections import deque
from dataclasses import dataclass

import cupy as cp
import numpy as np


@dataclass
class Download:
    index: int
    device: cp.ndarray
    host: np.ndarray
    done: cp.cuda.Event


class HostPool:
    def __init__(self, shape: tuple, count: int):
        n = int(np.prod(shape))
        self.free = deque(
            np.frombuffer(cp.cuda.alloc_pinned_memory(n), dtype=np.uint8, count=n).reshape(shape)
            for _ in range(count)
        )


class FrameDrain:
    def __init__(self, shape: tuple, depth: int, sink):
        self.pool = HostPool(shape, depth)
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.pending: deque[Download] = deque()
        self.sink = sink

    def put(self, index: int, frame: cp.ndarray, ready: cp.cuda.Event) -> None:
        if not self.pool.free:
            self._retire()
        host = self.pool.free.popleft()
        self.copy.wait_event(ready)
        frame.get(stream=self.copy, out=host, blocking=False)
        self.pending.append(Download(index, frame, host, self.copy.record()))

    def _retire(self) -> None:
        item = self.pending.popleft()
        item.done.synchronize()
        self.sink(item.index, item.host)
        self.pool.free.append(item.host)

    def close(self) -> None:
        while self.pending:
            self._retire()


class Checksums:
    def __init__(self):
        self.values: dict[int, int] = {}

    def __call__(self, index: int, frame: np.ndarray) -> None:
        self.values[index] = int(frame.astype(np.uint64).sum())


def main(h: int = 720, w: int = 1280):
    sums = Checksums()
    drain = FrameDrain((h, w), depth=3, sink=sums)
    render = cp.cuda.Stream(non_blocking=True)
    with render:
        yy, xx = cp.mgrid[0:h, 0:w]
        for i in range(60):
            wave = cp.sin(xx / 40.0 + i / 5.0) * cp.cos(yy / 30.0)
            frame = ((wave + 1) * 127.5).astype(cp.uint8)
            drain.put(i, frame, render.record())
    drain.close()
    print(len(sums.values), sums.values[59])


if __name__ == "__main__":
    main()
