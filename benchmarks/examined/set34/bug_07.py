"""Multi-threaded upload of microscope tiles through pooled page-locked staging memory."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import cupyx
import numpy as np


class StagingPool:
    def __init__(self, block_bytes, depth):
        self.block_bytes = block_bytes
        self._blocks = [cupyx.empty_pinned(block_bytes, dtype=np.uint8) for _ in range(depth)]
        self._cond = threading.Condition()

    def take(self):
        with self._cond:
            while not self._blocks:
                self._cond.wait()
            return self._blocks.pop()

    def give(self, block):
        with self._cond:
            self._blocks.append(block)
            self._cond.notify()


class TileUploader:
    def __init__(self, pool):
        self.pool = pool
        self._local = threading.local()

    @property
    def stream(self):
        if not hasattr(self._local, "stream"):
            self._local.stream = cp.cuda.Stream(non_blocking=True)
        return self._local.stream

    def upload(self, tile):
        stream = self.stream
        block = self.pool.take()
        try:
            staged = block[: tile.nbytes].view(tile.dtype).reshape(tile.shape)
            np.copyto(staged, tile)
            with stream:
                device = cp.empty(tile.shape, tile.dtype)
                device.set(staged, stream=stream)
        finally:
            self.pool.give(block)
        return device


class FlatField:
    def __init__(self, shape):
        self.gain = cp.ones(shape, cp.float32)
        self.dark = cp.zeros(shape, cp.float32)
        cp.cuda.Device().synchronize()

    def apply(self, tile, stream):
        with stream:
            corrected = (tile.astype(cp.float32) - self.dark) * self.gain
            return float(corrected.mean())


def process(tiles, threads=8):
    pool = StagingPool(max(t.nbytes for t in tiles), depth=threads // 2)
    uploader = TileUploader(pool)
    flat = FlatField(tiles[0].shape)

    def job(tile):
        device = uploader.upload(tile)
        return flat.apply(device, uploader.stream)

    with ThreadPoolExecutor(threads) as ex:
        return list(ex.map(job, tiles))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    stack = [rng.integers(0, 4096, (2048, 2048), dtype=np.uint16) for _ in range(64)]
    means = process(stack)
    print(len(means), means[0])
