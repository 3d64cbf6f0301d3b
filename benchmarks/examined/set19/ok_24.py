"""Frames resized and colour-converted on the GPU with page-locked ends."""
import cv2
import numpy as np


class PageLocked:
    """Registers a NumPy array for the lifetime of the object."""

    def __init__(self, shape, dtype):
        self.array = np.zeros(shape, dtype)
        cv2.cuda.registerPageLocked(self.array)

    def release(self):
        cv2.cuda.unregisterPageLocked(self.array)


class PreCuda:
    """One lane: its own stream, its own host and device buffers."""

    def __init__(self, size, out_size):
        self.stream = cv2.cuda.Stream()
        self.finished = cv2.cuda.Event()
        self.frame = PageLocked((size, size, 3), np.uint8)
        self.result = PageLocked((out_size, out_size), np.uint8)
        self.frame_device = cv2.cuda.GpuMat(size, size, cv2.CV_8UC3)
        self.gray_device = cv2.cuda.GpuMat(size, size, cv2.CV_8UC1)
        self.small_device = cv2.cuda.GpuMat(out_size, out_size, cv2.CV_8UC1)
        self.out_size = out_size
        self.tag = None

    def start(self, tag, img):
        np.copyto(self.frame.array, img)
        self.frame_device.upload(self.frame.array, self.stream)
        cv2.cuda.cvtColor(self.frame_device, cv2.COLOR_BGR2GRAY, self.gray_device,
                          stream=self.stream)
        cv2.cuda.resize(self.gray_device, (self.out_size, self.out_size),
                        self.small_device, stream=self.stream)
        self.small_device.download(self.stream, self.result.array)
        self.finished.record(self.stream)
        self.tag = tag

    def collect(self):
        if self.tag is None:
            return None
        self.finished.waitForCompletion()
        tag, self.tag = self.tag, None
        return tag, self.result.array.copy()

    def release(self):
        self.stream.waitForCompletion()
        self.frame.release()
        self.result.release()


class LaneScheduler:
    def __init__(self, lanes):
        self.lanes = lanes
        self.turn = 0

    def process(self, frames):
        for tag, img in enumerate(frames):
            lane = self.lanes[self.turn]
            self.turn = (self.turn + 1) % len(self.lanes)
            done = lane.collect()
            lane.start(tag, img)
            if done is not None:
                yield done
        for k in range(len(self.lanes)):
            done = self.lanes[(self.turn + k) % len(self.lanes)].collect()
            if done is not None:
                yield done


def main():
    rng = np.random.default_rng(0)
    frames = (rng.integers(0, 255, (1024, 1024, 3), dtype=np.uint8) for _ in range(20))
    lanes = [PreCuda(1024, 256) for _ in range(3)]
    for tag, small in LaneScheduler(lanes).process(frames):
        print(tag, float(small.mean()))
    for lane in lanes:
        lane.release()


if __name__ == "__main__":
    main()
