"""Spill store in which every frame remembers the last stream position that wrote it."""
from contextlib import contextmanager
from typing import Dict, Optional

import cupy as cp
import cupyx
import numpy as np


class Frame:
    def __init__(self, rows: int):
        self.rows = rows
        self.device: Optional[cp.ndarray] = cp.empty(rows, dtype=cp.float32)
        self.host: Optional[np.ndarray] = None
        self.last_use = cp.cuda.Event(disable_timing=True)
        self.last_use.record(cp.cuda.get_current_stream())

    @contextmanager
    def access(self, stream: cp.cuda.Stream):
        stream.wait_event(self.last_use)
        with stream:
            yield self.device
        self.last_use.record(stream)


class Store:
    def __init__(self):
        self.frames: Dict[str, Frame] = {}
        self.io = cp.cuda.Stream(non_blocking=True)

    def create(self, key: str, rows: int) -> Frame:
        frame = self.frames[key] = Frame(rows)
        return frame

    def spill(self, key: str) -> np.ndarray:
        frame = self.frames[key]
        self.io.wait_event(frame.last_use)
        frame.host = cupyx.empty_pinned(frame.rows, dtype=np.float32)
        frame.device.get(stream=self.io, out=frame.host)
        frame.device = None
        return frame.host


class Worker:
    def __init__(self, store: Store, name: str):
        self.store = store
        self.name = name
        self.stream = cp.cuda.Stream(non_blocking=True)

    def generate(self, rows: int):
        frame = self.store.create(self.name, rows)
        with frame.access(self.stream) as data:
            data[...] = cp.linspace(0, 1, rows, dtype=cp.float32)

    def transform(self, other: "Worker"):
        frame = self.store.frames[self.name]
        peer = self.store.frames[other.name]
        with peer.access(self.stream) as theirs:
            with frame.access(self.stream) as mine:
                for _ in range(8):
                    mine += cp.sin(theirs)


def main(rows: int = 1 << 22, count: int = 4):
    store = Store()
    workers = [Worker(store, f"part-{i}") for i in range(count)]
    for w in workers:
        w.generate(rows)
    for left, right in zip(workers, workers[1:]):
        right.transform(left)
    hosts = [store.spill(w.name) for w in workers]
    print([float(h.mean()) for h in hosts])


if __name__ == "__main__":
    main()
