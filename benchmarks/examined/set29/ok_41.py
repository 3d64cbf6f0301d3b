"""Wave simulator whose snapshots are written by a background thread."""
import queue
import threading

import numpy as np
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SRC = """
__global__ void leap(const float *u, float *w, float c2, int nx, int ny) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= nx - 1 || j >= ny - 1) return;
    int k = j * nx + i;
    w[k] = 2.f * u[k] - w[k] + c2 * (u[k - 1] + u[k + 1] + u[k - nx] + u[k + nx] - 4.f * u[k]);
}
"""


class Snapshot:
    def __init__(self, shape):
        self.host = cuda.pagelocked_empty(shape, np.float32)
        self.copied = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.step = -1


class SnapshotWriter(threading.Thread):
    def __init__(self, ctx, todo, free, path):
        super().__init__()
        self.ctx, self.todo, self.free, self.path = ctx, todo, free, path

    def run(self):
        self.ctx.push()
        try:
            with open(self.path, "wb") as f:
                while True:
                    snap = self.todo.get()
                    if snap is None:
                        break
                    snap.copied.synchronize()
                    np.int64(snap.step).tofile(f)
                    snap.host.tofile(f)
                    self.free.put(snap)
        finally:
            self.ctx.pop()


class Wave:
    def __init__(self, nx, ny):
        self.nx, self.ny = nx, ny
        self.stream = cuda.Stream()
        y, x = np.mgrid[0:ny, 0:nx].astype(np.float32)
        u0 = np.exp(-((x - nx / 2) ** 2 + (y - ny / 2) ** 2) / 400.0).astype(np.float32)
        self.u = cuda.to_device(u0)
        self.w = cuda.to_device(u0)
        self.leap = SourceModule(SRC).get_function("leap")
        self.grid = ((nx + 31) // 32, (ny + 7) // 8)

    def advance(self, n):
        for _ in range(n):
            self.leap(self.u, self.w, np.float32(0.2), np.int32(self.nx), np.int32(self.ny),
                      block=(32, 8, 1), grid=self.grid, stream=self.stream)
            self.u, self.w = self.w, self.u

    def snapshot(self, snap, step):
        cuda.memcpy_dtoh_async(snap.host, self.u, self.stream)
        snap.copied.record(self.stream)
        snap.step = step


def main(frames=30, every=50):
    cuda.init()
    ctx = cuda.Device(0).make_context()
    try:
        wave = Wave(1024, 768)
        todo, free = queue.Queue(), queue.Queue()
        for _ in range(3):
            free.put(Snapshot((wave.ny, wave.nx)))
        writer = SnapshotWriter(ctx, todo, free, "wave.bin")
        writer.start()
        for k in range(frames):
            wave.advance(every)
            snap = free.get()
            wave.snapshot(snap, k * every)
            todo.put(snap)
        todo.put(None)
        writer.join()
    finally:
        ctx.pop()


if __name__ == "__main__":
    main()
