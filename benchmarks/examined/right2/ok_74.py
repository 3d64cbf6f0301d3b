"""Frame writer driven by CUDA host callbacks."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

plasma = cp.ElementwiseKernel(
    "int32 width, float32 t",
    "uint8 v",
    """
    float x = (float)(i % width) / width;
    float y = (float)(i / width) / width;
    v = (unsigned char)(127.5f * (1.0f + sinf(12.0f * x + t) * cosf(9.0f * y - t)));
    """,
    "plasma",
)


class FrameWriter(threading.Thread):
    def __init__(self, frames, path):
        super().__init__(daemon=True)
        self.frames = frames
        self.path = path
        self.ready = queue.Queue()
        self.free = queue.Queue()
        for index in range(len(frames)):
            self.free.put(index)

    def run(self):
        with open(self.path, "wb") as sink:
            while True:
                index = self.ready.get()
                if index is None:
                    return
                sink.write(self.frames[index].tobytes())
                self.free.put(index)


class Renderer:
    def __init__(self, side, slots, path):
        self.side = side
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.canvas = cp.empty((side, side), dtype=cp.uint8)
        self.host = [cupyx.empty_pinned((side, side), dtype=np.uint8) for _ in range(slots)]
        self.writer = FrameWriter(self.host, path)

    def frame(self, t):
        index = self.writer.free.get()
        with self.stream:
            plasma(np.int32(self.side), np.float32(t), self.canvas)
            self.canvas.get(stream=self.stream, out=self.host[index], blocking=False)
        self.stream.launch_host_func(self.writer.ready.put, index)

    def __enter__(self):
        self.writer.start()
        return self

    def __exit__(self, *exc):
        self.stream.synchronize()
        self.writer.ready.put(None)
        self.writer.join()


def main(frames=120):
    with Renderer(1024, slots=4, path="plasma.raw") as renderer:
        for i in range(frames):
            renderer.frame(i / 30.0)


if __name__ == "__main__":
    main()
