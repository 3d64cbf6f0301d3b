import queue
import threading

import cupy as cp
import cupyx
import numpy as np

_blur = cp.ElementwiseKernel(
    "raw float32 img, int32 w, int32 h",
    "float32 out",
    """
    int x = i % w, y = i / w;
    float acc = 0.f; int cnt = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) {
        int xx = x + dx, yy = y + dy;
        if (xx >= 0 && xx < w && yy >= 0 && yy < h) { acc += img[yy * w + xx]; ++cnt; }
      }
    out = acc / cnt;
    """,
    "box_blur3",
)


class FrameExporter:
    """Processes frames on a stream; a writer thread gets the results by callback."""

    def __init__(self, height: int, width: int, write, depth: int = 4):
        self.shape = (height, width)
        self.write = write
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host = [cupyx.empty_pinned(self.shape, np.float32) for _ in range(depth)]
        self.free: "queue.Queue" = queue.Queue()
        self.full: "queue.Queue" = queue.Queue()
        for i in range(depth):
            self.free.put(i)
        with self.stream:
            self.out = cp.empty(height * width, dtype=cp.float32)
        self.writer = threading.Thread(target=self._drain)
        self.writer.start()

    def _done(self, arg) -> None:
        self.full.put(arg)

    def submit(self, frame_id: int, frame: np.ndarray) -> None:
        slot = self.free.get()
        height, width = self.shape
        with self.stream:
            img = cp.asarray(frame, dtype=cp.float32)
            _blur(img, cp.int32(width), cp.int32(height), self.out)
            self.out.reshape(self.shape).get(
                stream=self.stream, out=self.host[slot], blocking=False
            )
            self.stream.launch_host_func(self._done, (frame_id, slot))

    def _drain(self) -> None:
        while True:
            item = self.full.get()
            if item is None:
                return
            frame_id, slot = item
            self.write(frame_id, self.host[slot])
            self.free.put(slot)

    def close(self) -> None:
        self.stream.synchronize()
        self.full.put(None)
        self.writer.join()


def export(frames, path_format: str) -> None:
    height, width = frames[0].shape
    exporter = FrameExporter(height, width, lambda i, a: np.save(path_format.format(i), a))
    for i, frame in enumerate(frames):
        exporter.submit(i, frame)
    exporter.close()


if __name__ == "__main__":
    export([np.random.rand(720, 1280).astype(np.float32) for _ in range(16)], "/tmp/frame_{}.npy")
