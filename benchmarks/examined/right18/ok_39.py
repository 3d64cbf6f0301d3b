"""Two-lane Mandelbrot renderer with scoped synchronisation (Numba)."""
import numpy as np
from numba import cuda


@cuda.jit
def render(image, x0, y0, dx, dy, limit):
    row, col = cuda.grid(2)
    if row < image.shape[0] and col < image.shape[1]:
        cr = x0 + dx * col
        ci = y0 + dy * row
        zr = 0.0
        zi = 0.0
        count = 0
        while count < limit and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            count += 1
        image[row, col] = count


@cuda.jit
def colour(image, palette, out):
    row, col = cuda.grid(2)
    if row < image.shape[0] and col < image.shape[1]:
        out[row, col] = palette[image[row, col] % palette.shape[0]]


class Renderer:
    def __init__(self, height, width, palette):
        self.shape = (height, width)
        self.lanes = [cuda.stream(), cuda.stream()]
        half = (height // 2, width)
        rest = (height - height // 2, width)
        self.counts = [cuda.device_array(s, dtype=np.int32) for s in (half, rest)]
        self.pixels = [cuda.device_array(s, dtype=np.uint8) for s in (half, rest)]
        self.host = [cuda.pinned_array(s, dtype=np.uint8) for s in (half, rest)]
        self.palette = cuda.to_device(np.asarray(palette, dtype=np.uint8))

    def _half(self, index, x0, y0, dx, dy, limit):
        stream = self.lanes[index]
        rows, cols = self.counts[index].shape
        grid = (-(-rows // 16), -(-cols // 16))
        top = y0 + dy * (self.shape[0] // 2) * index
        render[grid, (16, 16), stream](self.counts[index], x0, top, dx, dy, limit)
        colour[grid, (16, 16), stream](
            self.counts[index], self.palette, self.pixels[index]
        )
        self.pixels[index].copy_to_host(self.host[index], stream=stream)

    def frame(self, centre, span, limit=256):
        height, width = self.shape
        dx, dy = span / width, span / height
        x0, y0 = centre[0] - span / 2, centre[1] - span / 2
        with self.lanes[0].auto_synchronize(), self.lanes[1].auto_synchronize():
            for index in range(2):
                self._half(index, x0, y0, dx, dy, limit)
        return np.concatenate(self.host, axis=0)

    def set_palette(self, palette):
        self.palette.copy_to_device(np.asarray(palette, dtype=np.uint8))


def zoom(centre, frames=16, size=(1024, 1024)):
    renderer = Renderer(*size, palette=np.arange(256))
    span, movie = 3.0, []
    for number in range(frames):
        if number == frames // 2:
            renderer.set_palette(np.arange(256)[::-1].copy())
        movie.append(renderer.frame(centre, span))
        span *= 0.8
    return movie
