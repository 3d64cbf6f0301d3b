"""Two-window uploader for tiles of an elevation map (PyCUDA)."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MOD = SourceModule(r"""
__global__ void slope(const float *z, float *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= w - 1 || y >= h - 1) return;
    float gx = 0.5f * (z[y * w + x + 1] - z[y * w + x - 1]);
    float gy = 0.5f * (z[(y + 1) * w + x] - z[(y - 1) * w + x]);
    out[y * w + x] = sqrtf(gx * gx + gy * gy);
}
""")
slope_kernel = MOD.get_function("slope")


class Window:
    def __init__(self, shape):
        self.host = drv.pagelocked_empty(shape, np.float32)
        self.sent = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.used = False

    def claim(self):
        if self.used:
            self.sent.synchronize()
        self.used = True
        return self.host


class TileMap:
    def __init__(self, tile, count):
        self.tile = tile
        self.count = count
        self.tile_bytes = tile * tile * 4
        self.z = drv.mem_alloc(self.tile_bytes * count)
        self.grad = drv.mem_alloc(self.tile_bytes * count)
        self.copy = drv.Stream()
        self.calc = drv.Stream()
        self.windows = [Window((tile, tile)), Window((tile, tile))]
        self.arrived = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(count)]

    def upload(self, k, tile_data):
        win = self.windows[k % 2]
        view = win.claim()
        view[...] = tile_data
        drv.memcpy_htod_async(int(self.z) + k * self.tile_bytes, view, self.copy)
        win.sent.record(self.copy)
        self.arrived[k].record(self.copy)

    def derive(self, k):
        self.calc.wait_for_event(self.arrived[k])
        at = k * self.tile_bytes
        b = (16, 16, 1)
        g = ((self.tile + 15) // 16, (self.tile + 15) // 16)
        slope_kernel(np.intp(int(self.z) + at), np.intp(int(self.grad) + at),
                     np.int32(self.tile), np.int32(self.tile),
                     block=b, grid=g, stream=self.calc)

    def clear(self):
        drv.memset_d8(int(self.grad), 0, self.tile_bytes * self.count)

    def fetch(self):
        out = np.empty((self.count, self.tile, self.tile), np.float32)
        drv.memcpy_dtoh(out, self.grad)
        return out


def tiles(count, tile):
    yy, xx = np.mgrid[0:tile, 0:tile].astype(np.float32)
    for k in range(count):
        yield (np.sin(xx / (20.0 + k)) * np.cos(yy / 31.0) * 40.0).astype(np.float32)


def main():
    tile, count = 512, 12
    tm = TileMap(tile, count)
    tm.clear()
    for k, data in enumerate(tiles(count, tile)):
        tm.upload(k, data)
        tm.derive(k)
    grad = tm.fetch()
    for k in range(count):
        print(k, float(grad[k].max()))


if __name__ == "__main__":
    main()
