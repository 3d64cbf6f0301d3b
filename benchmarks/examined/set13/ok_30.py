import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Frame:
    def __init__(self, index, host):
        self.index = index
        self.host = host
        self.ready = threading.Event()


class FrameWriter(threading.Thread):
    def __init__(self, path, free_buffers):
        super().__init__(daemon=True)
        self.path = path
        self.free_buffers = free_buffers
        self.frames = queue.Queue()

    def run(self):
        with open(self.path, "wb") as f:
            while True:
                frame = self.frames.get()
                if frame is None:
                    return
                frame.ready.wait()
                f.write(frame.host.tobytes())
                self.free_buffers.put(frame.host)


_blur = cp.RawKernel(r"""
extern "C" __global__ void blur(const float* src, float* dst, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.f; int n = 0;
    for (int dy = -2; dy <= 2; ++dy) for (int dx = -2; dx <= 2; ++dx) {
        int yy = y + dy, xx = x + dx;
        if (yy >= 0 && yy < h && xx >= 0 && xx < w) { s += src[yy * w + xx]; ++n; }
    }
    dst[y * w + x] = s / n;
}
""", "blur")


def _signal(frame):
    frame.ready.set()


class Renderer:
    def __init__(self, shape, path, depth=4):
        self.h, self.w = shape
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = queue.Queue()
        for _ in range(depth):
            self.free.put(cupyx.empty_pinned(shape, dtype=np.float32))
        self.writer = FrameWriter(path, self.free)
        self.writer.start()
        with self.stream:
            self.tmp = cp.empty(shape, dtype=cp.float32)
            self.out = cp.empty(shape, dtype=cp.float32)

    def render(self, index, scene):
        host = self.free.get()
        frame = Frame(index, host)
        grid = ((self.w + 15) // 16, (self.h + 15) // 16)
        with self.stream:
            self.tmp[...] = scene(index)
            _blur(grid, (16, 16), (self.tmp, self.out, cp.int32(self.h), cp.int32(self.w)))
            self.out.get(stream=self.stream, out=host, blocking=False)
            self.stream.launch_host_func(_signal, frame)
        self.writer.frames.put(frame)

    def close(self):
        self.writer.frames.put(None)
        self.writer.join()
        self.stream.synchronize()
