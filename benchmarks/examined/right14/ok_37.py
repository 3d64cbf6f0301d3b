"""Fractal tiles rendered on one stream and fetched on another."""
from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def render(out, x0, y0, step, limit):
    col, row = cuda.grid(2)
    if row >= out.shape[0] or col >= out.shape[1]:
        return
    cr = x0 + col * step
    ci = y0 + row * step
    zr = 0.0
    zi = 0.0
    n = 0
    while n < limit and zr * zr + zi * zi < 4.0:
        t = zr * zr - zi * zi + cr
        zi = 2.0 * zr * zi + ci
        zr = t
        n += 1
    out[row, col] = n


class TileRenderer:
    def __init__(self, tile: int = 512, slots: int = 2) -> None:
        self.tile = tile
        self.compute = cuda.stream()
        self.fetch = cuda.stream()
        self.dev = [cuda.device_array((tile, tile), dtype=np.int32) for _ in range(slots)]
        self.host = [cuda.pinned_array((tile, tile), dtype=np.int32) for _ in range(slots)]
        self.rendered = [cuda.event(timing=False) for _ in range(slots)]
        self.fetched = [cuda.event(timing=False) for _ in range(slots)]

    def _issue(self, slot: int, x0: float, y0: float, step: float, limit: int) -> None:
        threads = (16, 16)
        blocks = (-(-self.tile // 16), -(-self.tile // 16))
        render[blocks, threads, self.compute](self.dev[slot], x0, y0, step, limit)
        self.rendered[slot].record(self.compute)
        self.rendered[slot].wait(self.fetch)
        self.dev[slot].copy_to_host(self.host[slot], stream=self.fetch)
        self.fetched[slot].record(self.fetch)

    def _collect(self, slot: int, image: np.ndarray, row: int, col: int) -> None:
        self.fetched[slot].synchronize()
        view = image[row:row + self.tile, col:col + self.tile]
        view[...] = self.host[slot][: view.shape[0], : view.shape[1]]

    def __call__(
        self, height: int, width: int, x0: float, y0: float, step: float, limit: int = 256
    ) -> np.ndarray:
        image = np.empty((height, width), dtype=np.int32)
        origins = [
            (r, c) for r in range(0, height, self.tile) for c in range(0, width, self.tile)
        ]
        slots = len(self.dev)
        try:
            for index, (row, col) in enumerate(origins):
                slot = index % slots
                if index >= slots:
                    self._collect(slot, image, *origins[index - slots])
                self._issue(slot, x0 + col * step, y0 + row * step, step, limit)
            for index in range(max(0, len(origins) - slots), len(origins)):
                self._collect(index % slots, image, *origins[index])
        finally:
            self.compute.synchronize()
            self.fetch.synchronize()
        return image


def main() -> None:
    renderer = TileRenderer(256)
    for zoom in (1.0, 0.5, 0.25):
        image = renderer(900, 1100, -2.0 * zoom, -1.2 * zoom, 0.003 * zoom)
        print(zoom, image.mean())


if __name__ == "__main__":
    main()
