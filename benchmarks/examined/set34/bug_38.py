"""Disk tier for device frames: spill through KvikIO, recycle the buffers."""
import os
import threading
import uuid
from typing import Dict, List, Tuple

import cupy as cp
import kvikio
import numpy as np


class FramePool:
    """Fixed-size device frames handed out and taken back by the store."""

    def __init__(self, nbytes: int, count: int):
        self.nbytes = nbytes
        self._free: List[cp.ndarray] = [cp.zeros(nbytes, dtype=cp.uint8) for _ in range(count)]
        self._lock = threading.Lock()

    def acquire(self) -> cp.ndarray:
        with self._lock:
            return self._free.pop()

    def release(self, frame: cp.ndarray) -> None:
        with self._lock:
            self._free.append(frame)

    @property
    def available(self) -> int:
        with self._lock:
            return len(self._free)


class SpillStore:
    def __init__(self, directory: str, pool: FramePool):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.pool = pool
        self.resident: Dict[str, List[cp.ndarray]] = {}
        self.on_disk: Dict[str, Tuple[str, int]] = {}
        self._writers: List[kvikio.CuFile] = []

    def put(self, key: str, frames: List[cp.ndarray]) -> None:
        self.resident[key] = frames

    def _write(self, frames: List[cp.ndarray]) -> str:
        path = os.path.join(self.directory, uuid.uuid4().hex)
        offset = 0
        f = kvikio.CuFile(path, "w")
        for frame in frames:
            f.pwrite(buf=frame, size=frame.nbytes, file_offset=offset)
            offset += frame.nbytes
        self._writers.append(f)
        return path

    def spill(self, key: str) -> None:
        frames = self.resident.pop(key)
        path = self._write(frames)
        self.on_disk[key] = (path, len(frames))
        for frame in frames:
            self.pool.release(frame)

    def close(self) -> None:
        for f in self._writers:
            f.close()
        self._writers.clear()

    def load(self, key: str) -> List[cp.ndarray]:
        if key in self.resident:
            return self.resident[key]
        path, count = self.on_disk.pop(key)
        frames = [self.pool.acquire() for _ in range(count)]
        with kvikio.CuFile(path, "r") as f:
            for i, frame in enumerate(frames):
                f.read(frame, size=frame.nbytes, file_offset=i * frame.nbytes)
        self.resident[key] = frames
        return frames


class ChunkProducer:
    def __init__(self, store: SpillStore, frames_per_chunk: int):
        self.store = store
        self.frames_per_chunk = frames_per_chunk
        self.order: List[str] = []

    def produce(self, index: int) -> None:
        if self.store.pool.available < self.frames_per_chunk:
            self.store.spill(self.order.pop(0))
        frames = []
        for j in range(self.frames_per_chunk):
            frame = self.store.pool.acquire()
            frame.fill((index + j) % 251)
            frames.append(frame)
        key = f"chunk-{index}"
        self.store.put(key, frames)
        self.order.append(key)


def main(chunks: int = 64) -> None:
    pool = FramePool(nbytes=64 << 20, count=32)
    store = SpillStore("/tmp/frames", pool)
    producer = ChunkProducer(store, frames_per_chunk=4)
    for i in range(chunks):
        producer.produce(i)
    cp.cuda.Device().synchronize()
    store.close()
    print(len(store.on_disk), np.uint8(store.resident[producer.order[-1]][0][0].get()))


if __name__ == "__main__":
    main()
