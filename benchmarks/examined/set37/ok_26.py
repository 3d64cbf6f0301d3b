"""Tiles pass from an upload stream to a compute stream; both take memory from CuPy's pool."""
from dataclasses import dataclass

import cupy as cp
import cupyx
import numpy as np


@dataclass
class Uploaded:
    data: cp.ndarray
    ready: cp.cuda.Event
    stream: cp.cuda.Stream


class Uploader:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def upload(self, tile):
        with self.stream:
            data = cp.empty(tile.shape, tile.dtype)
            data.set(tile, stream=self.stream)
            return Uploaded(data, self.stream.record(), self.stream)


class SpectralFilter:
    def __init__(self, shape, cutoff=0.2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            fy = cp.fft.fftfreq(shape[0])[:, None]
            fx = cp.fft.rfftfreq(shape[1])[None, :]
            self.mask = cp.exp(-(fx * fx + fy * fy) / (2 * cutoff * cutoff)).astype(cp.float32)

    def apply(self, uploaded):
        self.stream.wait_event(uploaded.ready)
        with self.stream:
            spectrum = cp.fft.rfft2(uploaded.data.astype(cp.float32))
            smooth = cp.fft.irfft2(spectrum * self.mask, s=uploaded.data.shape)
            residual = cp.abs(uploaded.data - smooth)
            result = smooth.astype(cp.float32), residual.max()
            uploaded.stream.wait_event(self.stream.record())
        return result


class TilePipeline:
    def __init__(self, tile_shape, lookahead=3):
        self.uploader = Uploader()
        self.filter = SpectralFilter(tile_shape)
        self.lookahead = lookahead

    def run(self, tiles):
        """tiles: page-locked arrays; returns the filtered tiles and the largest residual."""
        queue, outputs, peaks = [], [], []
        tiles = list(tiles)
        pending = iter(tiles)
        for tile in pending:
            queue.append(self.uploader.upload(tile))
            if len(queue) == self.lookahead:
                break
        while queue:
            uploaded = queue.pop(0)
            smooth, peak = self.filter.apply(uploaded)
            outputs.append(smooth)
            peaks.append(peak)
            del uploaded
            tile = next(pending, None)
            if tile is not None:
                queue.append(self.uploader.upload(tile))
        with self.filter.stream:
            largest = float(cp.stack(peaks).max()) if peaks else 0.0
            return [out.get() for out in outputs], largest


def make_tiles(count, shape, seed=0):
    rng = np.random.default_rng(seed)
    tiles = []
    for _ in range(count):
        tile = cupyx.empty_pinned(shape, dtype=np.uint16)
        tile[:] = rng.integers(0, 4096, shape, dtype=np.uint16)
        tiles.append(tile)
    return tiles


if __name__ == "__main__":
    shape = (2048, 2048)
    pipeline = TilePipeline(shape)
    results, peak = pipeline.run(make_tiles(24, shape))
    print(len(results), peak)
