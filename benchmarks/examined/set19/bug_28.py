"""Tiled GEMM on page-locked host matrices, tiles spread over several streams."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

TILE = 1024

MODULE = SourceModule("""
__global__ void gemm_tile(const float *a, const float *b, float *c, int t, float beta) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float acc = 0.f;
    for (int k = 0; k < t; ++k) acc += a[row * t + k] * b[k * t + col];
    c[row * t + col] = (beta == 0.f ? 0.f : beta * c[row * t + col]) + acc;
}
""")


class TiledMatrix:
    """Host matrix stored tile by tile in page-locked memory."""

    def __init__(self, rows, cols):
        self.tiles = drv.pagelocked_empty((rows, cols, TILE, TILE), np.float32)

    @property
    def shape(self):
        return self.tiles.shape[:2]

    def tile(self, i, j):
        return self.tiles[i, j]


class DeviceBuffer:
    def __init__(self, n_streams):
        self.parts = [drv.mem_alloc(TILE * TILE * 4) for _ in range(n_streams)]

    def stream_buffer(self, stream_id):
        return self.parts[stream_id]


class GpuContext:
    def __init__(self, n_streams):
        self.streams = [drv.Stream() for _ in range(n_streams)]
        self.result_stream = drv.Stream()
        self.tile_done = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(n_streams)]


class MMHandle:
    def __init__(self, n_streams=3):
        self.n_streams = n_streams
        self.ctx = GpuContext(n_streams)
        self.a = DeviceBuffer(n_streams)
        self.b = DeviceBuffer(n_streams)
        self.c = DeviceBuffer(n_streams)
        self.kernel = MODULE.get_function("gemm_tile")

    def _gemm(self, stream_id, beta):
        self.kernel(self.a.stream_buffer(stream_id), self.b.stream_buffer(stream_id),
                    self.c.stream_buffer(stream_id), np.int32(TILE), np.float32(beta),
                    block=(32, 8, 1), grid=(TILE // 32, TILE // 8),
                    stream=self.ctx.streams[stream_id])

    def _copy_tile_to_host(self, c_host, i, j, stream_id):
        done = self.ctx.tile_done[stream_id]
        done.record(self.ctx.streams[stream_id])
        self.ctx.result_stream.wait_for_event(done)
        drv.memcpy_dtoh_async(c_host.tile(i, j), self.c.stream_buffer(stream_id),
                              self.ctx.result_stream)

    def round_robin(self, a_host, b_host, c_host):
        n_m, n_k = a_host.shape
        n_n = b_host.shape[1]
        for first in range(0, n_m * n_n, self.n_streams):
            group = range(first, min(first + self.n_streams, n_m * n_n))
            for k in range(n_k):
                for stream_id, flat in enumerate(group):
                    i, j = divmod(flat, n_n)
                    stream = self.ctx.streams[stream_id]
                    drv.memcpy_htod_async(self.a.stream_buffer(stream_id), a_host.tile(i, k), stream)
                    drv.memcpy_htod_async(self.b.stream_buffer(stream_id), b_host.tile(k, j), stream)
                for stream_id, flat in enumerate(group):
                    self._gemm(stream_id, beta=0.0 if k == 0 else 1.0)
                    if k == n_k - 1:
                        self._copy_tile_to_host(c_host, *divmod(flat, n_n), stream_id)

    def gemm(self, a_host, b_host, c_host):
        self.round_robin(a_host, b_host, c_host)
        drv.Context.synchronize()


def main():
    a, b, c = TiledMatrix(4, 3), TiledMatrix(3, 4), TiledMatrix(4, 4)
    rng = np.random.default_rng(0)
    a.tiles[:] = rng.normal(size=a.tiles.shape)
    b.tiles[:] = rng.normal(size=b.tiles.shape)
    MMHandle().gemm(a, b, c)
    print(float(np.abs(c.tiles).mean()))


if __name__ == "__main__":
    main()
