"""Thread pool that deconvolves image tiles, one stream for each thread."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np

TILE = 512
_local = threading.local()


def thread_stream():
    if not hasattr(_local, "stream"):
        _local.stream = cp.cuda.Stream(non_blocking=True)
    return _local.stream


class TileSharpener:
    def __init__(self, workers=4):
        self.executor = ThreadPoolExecutor(workers)
        with cp.cuda.Stream.null:
            self.kernel = cp.asarray(np.outer(np.hanning(9), np.hanning(9)), dtype=cp.float32)
            self.kernel /= self.kernel.sum()
            cp.cuda.Stream.null.synchronize()

    def _tile(self, tile):
        with thread_stream() as stream:
            x = cp.asarray(tile)
            blurred = cp.zeros_like(x)
            for dy in range(9):
                for dx in range(9):
                    blurred += self.kernel[dy, dx] * cp.roll(x, (dy - 4, dx - 4), axis=(0, 1))
            sharp = x + 0.7 * (x - blurred)
            stream.synchronize()
        return sharp

    def __call__(self, image):
        rows, cols = image.shape[0] // TILE, image.shape[1] // TILE
        tiles = [image[r * TILE:(r + 1) * TILE, c * TILE:(c + 1) * TILE]
                 for r in range(rows) for c in range(cols)]
        done = list(self.executor.map(self._tile, tiles))
        out = cp.empty((rows, cols, TILE, TILE), cp.float32)
        for k, tile in enumerate(done):
            out[k // cols, k % cols] = tile
        result = out.transpose(0, 2, 1, 3).reshape(rows * TILE, cols * TILE).get()
        return result

    def close(self):
        self.executor.shutdown()


if __name__ == "__main__":
    sharpener = TileSharpener()
    for seed in range(3):
        picture = np.random.default_rng(seed).random((2048, 2048), dtype=np.float32)
        print(sharpener(picture).std())
    sharpener.close()
