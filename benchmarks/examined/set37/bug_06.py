"""Several ingest threads append edges to one device-resident edge list."""
import threading
from typing import Iterable, List, Tuple

import cupy as cp
import cupyx
import numpy as np


class DeviceEdgeList:
    def __init__(self, capacity: int):
        self.src = cp.empty(capacity, dtype=cp.int32)
        self.dst = cp.empty(capacity, dtype=cp.int32)
        self.size = 0
        self._lock = threading.Lock()
        cp.cuda.Device().synchronize()

    def reserve(self, count: int) -> slice:
        with self._lock:
            begin = self.size
            if begin + count > self.src.size:
                raise MemoryError("edge list is full")
            self.size += count
        return slice(begin, begin + count)


class EdgeWriter(threading.Thread):
    CHUNK = 1 << 18

    def __init__(self, edges: Iterable[Tuple[np.ndarray, np.ndarray]], target: DeviceEdgeList):
        super().__init__()
        self.edges = edges
        self.target = target
        self.device = cp.cuda.Device().id
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_src = cupyx.empty_pinned(self.CHUNK, dtype=np.int32)
        self.host_dst = cupyx.empty_pinned(self.CHUNK, dtype=np.int32)

    def flush(self, src: np.ndarray, dst: np.ndarray) -> None:
        self.stream.synchronize()
        count = src.size
        self.host_src[:count] = src
        self.host_dst[:count] = dst
        where = self.target.reserve(count)
        self.target.src[where].set(self.host_src[:count], stream=self.stream)
        self.target.dst[where].set(self.host_dst[:count], stream=self.stream)

    def run(self) -> None:
        with cp.cuda.Device(self.device):
            for src, dst in self.edges:
                for begin in range(0, src.size, self.CHUNK):
                    part = slice(begin, begin + self.CHUNK)
                    self.flush(src[part], dst[part])


class GraphBuilder:
    def __init__(self, vertices: int, capacity: int):
        self.vertices = vertices
        self.edges = DeviceEdgeList(capacity)
        self.writers: List[EdgeWriter] = []

    def ingest(self, parts: List[Iterable[Tuple[np.ndarray, np.ndarray]]]) -> None:
        for part in parts:
            writer = EdgeWriter(part, self.edges)
            self.writers.append(writer)
            writer.start()

    def finish(self) -> Tuple[cp.ndarray, cp.ndarray]:
        for writer in self.writers:
            writer.join()
        used = self.edges.size
        src = self.edges.src[:used]
        order = cp.argsort(src)
        indices = self.edges.dst[:used][order]
        degree = cp.bincount(src, minlength=self.vertices)
        offsets = cp.zeros(self.vertices + 1, dtype=cp.int64)
        cp.cumsum(degree, out=offsets[1:])
        return offsets, indices


def random_part(vertices: int, edges: int, seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        yield (
            rng.integers(0, vertices, edges, dtype=np.int32),
            rng.integers(0, vertices, edges, dtype=np.int32),
        )


if __name__ == "__main__":
    builder = GraphBuilder(1 << 20, 1 << 25)
    builder.ingest([random_part(1 << 20, 1 << 20, seed) for seed in range(4)])
    offsets, indices = builder.finish()
    print(int(offsets[-1]), indices.shape)
