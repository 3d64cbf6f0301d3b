"""Decode raw frames into a surface pool and export them to a clip buffer."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MOD = SourceModule(r"""
__global__ void expand(const unsigned char *raw, unsigned char *surface, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int v = raw[i];
        for (int k = 0; k < 16; ++k) v = (v * 5 + 3) & 255;
        surface[i] = (unsigned char)v;
    }
}
""")


class Surface:
    def __init__(self, nbytes):
        self.raw = drv.mem_alloc(nbytes)
        self.data = drv.mem_alloc(nbytes)
        self.decoded = drv.Event(drv.event_flags.DISABLE_TIMING)


class SurfacePool:
    def __init__(self, count, nbytes):
        self.items = [Surface(nbytes) for _ in range(count)]
        self.turn = 0

    def next(self):
        surface = self.items[self.turn % len(self.items)]
        self.turn += 1
        return surface


class Transcoder:
    def __init__(self, frame_bytes, frames, pool=2):
        self.n = frame_bytes
        self.expand = MOD.get_function("expand")
        self.decode_stream = drv.Stream()
        self.export_stream = drv.Stream()
        self.pool = SurfacePool(pool, frame_bytes)
        self.clip = drv.mem_alloc(frame_bytes * frames)

    def decode(self, packet):
        surface = self.pool.next()
        drv.memcpy_htod_async(surface.raw, packet, self.decode_stream)
        grid = ((self.n + 255) // 256, 1)
        self.expand(surface.raw, surface.data, np.int32(self.n),
                    block=(256, 1, 1), grid=grid, stream=self.decode_stream)
        surface.decoded.record(self.decode_stream)
        return surface

    def export(self, surface, index):
        self.export_stream.wait_for_event(surface.decoded)
        dst = int(self.clip) + index * self.n
        drv.memcpy_dtod_async(dst, surface.data, self.n, self.export_stream)

    def read(self, out):
        drv.memcpy_dtoh_async(out, self.clip, self.export_stream)
        self.export_stream.synchronize()


def main(frames=24, height=1080, width=1920):
    n = height * width
    packets = drv.pagelocked_empty((frames, n), np.uint8)
    packets[...] = np.arange(frames, dtype=np.uint8)[:, None] * 7
    out = drv.pagelocked_empty((frames, n), np.uint8)

    coder = Transcoder(n, frames)
    for k in range(frames):
        surface = coder.decode(packets[k])
        coder.export(surface, k)
    coder.read(out)

    want = packets[:, 0].astype(int)
    for _ in range(16):
        want = (want * 5 + 3) & 255
    print("bad frames", [k for k in range(frames) if (out[k] != want[k]).any()])


if __name__ == "__main__":
    main()
