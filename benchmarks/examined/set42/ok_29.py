"""Detector thread and tracker thread exchanging page-locked result pages."""
import queue
import threading
from dataclasses import dataclass

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


@dataclass
class Page:
    image: np.ndarray
    boxes: np.ndarray
    ready: "cuda.Event"
    frame_id: int = -1


class Detector(threading.Thread):
    def __init__(self, ctx, path: str, source, free: queue.Queue, full: queue.Queue):
        super().__init__(daemon=True)
        self.ctx = ctx
        self.source = source
        self.free, self.full = free, full
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.names = [self.engine.get_tensor_name(i) for i in range(2)]
        sizes = [trt.volume(self.engine.get_tensor_shape(n)) for n in self.names]
        self.stream = cuda.Stream()
        self.d_image = cuda.mem_alloc(4 * sizes[0])
        self.d_boxes = cuda.mem_alloc(4 * sizes[1])
        self.context.set_tensor_address(self.names[0], int(self.d_image))
        self.context.set_tensor_address(self.names[1], int(self.d_boxes))
        for _ in range(3):
            free.put(
                Page(
                    cuda.pagelocked_empty(sizes[0], np.float32),
                    cuda.pagelocked_empty(sizes[1], np.float32),
                    cuda.Event(),
                )
            )

    def run(self):
        self.ctx.push()
        try:
            for frame_id, image in enumerate(self.source):
                page = self.free.get()
                page.frame_id = frame_id
                page.image[:] = image.ravel()
                cuda.memcpy_htod_async(self.d_image, page.image, self.stream)
                self.context.execute_async_v3(self.stream.handle)
                cuda.memcpy_dtoh_async(page.boxes, self.d_boxes, self.stream)
                page.ready.record(self.stream)
                self.full.put(page)
            self.full.put(None)
        finally:
            self.ctx.pop()


class Tracker(threading.Thread):
    def __init__(self, ctx, free: queue.Queue, full: queue.Queue):
        super().__init__(daemon=True)
        self.ctx = ctx
        self.free, self.full = free, full
        self.tracks = {}

    def run(self):
        self.ctx.push()
        try:
            while True:
                page = self.full.get()
                if page is None:
                    break
                page.ready.synchronize()
                rows = page.boxes.reshape(-1, 7)
                self.tracks[page.frame_id] = rows[rows[:, 2] > 0.4, 3:7].copy()
                self.free.put(page)
        finally:
            self.ctx.pop()


def frames(count: int, shape=(3, 300, 300)):
    rng = np.random.default_rng(1)
    for _ in range(count):
        yield rng.random(shape, dtype=np.float32)


def main():
    cuda.init()
    ctx = cuda.Device(0).retain_primary_context()
    ctx.push()
    free, full = queue.Queue(), queue.Queue()
    detector = Detector(ctx, "ssd.engine", frames(200), free, full)
    tracker = Tracker(ctx, free, full)
    detector.start()
    tracker.start()
    detector.join()
    tracker.join()
    ctx.pop()
    print(len(tracker.tracks))


if __name__ == "__main__":
    main()
