"""Dense optical flow for a video with OpenCV CUDA: prepare frames on one stream, track on another."""
import cv2
import numpy as np


class Prepared:
    def __init__(self, rows, cols):
        self.mem = cv2.cuda.HostMem(rows, cols, cv2.CV_8UC3, cv2.cuda.HostMem_PAGE_LOCKED)
        self.host = self.mem.createMatHeader()
        self.color = cv2.cuda.GpuMat(rows, cols, cv2.CV_8UC3)
        self.gray = cv2.cuda.GpuMat(rows, cols, cv2.CV_8UC1)
        self.half = cv2.cuda.GpuMat(rows // 2, cols // 2, cv2.CV_8UC1)
        self.ready = cv2.cuda.Event()


class FlowTracker:
    def __init__(self, rows, cols):
        self.size = (cols // 2, rows // 2)
        self.prep = cv2.cuda.Stream()
        self.track = cv2.cuda.Stream()
        self.slots = [Prepared(rows, cols) for _ in range(3)]
        self.flow_alg = cv2.cuda.FarnebackOpticalFlow.create(5, 0.5, False, 15, 3, 5, 1.2, 0)
        self.flow = cv2.cuda.GpuMat(rows // 2, cols // 2, cv2.CV_32FC2)
        self.flow_mem = cv2.cuda.HostMem(
            rows // 2, cols // 2, cv2.CV_32FC2, cv2.cuda.HostMem_PAGE_LOCKED
        )
        self.host_flow = self.flow_mem.createMatHeader()
        self.index = 0

    def prepare(self, image):
        slot = self.slots[self.index % len(self.slots)]
        self.index += 1
        np.copyto(slot.host, image)
        slot.color.upload(slot.host, self.prep)
        cv2.cuda.cvtColor(slot.color, cv2.COLOR_BGR2GRAY, slot.gray, stream=self.prep)
        cv2.cuda.resize(slot.gray, self.size, slot.half, stream=self.prep)
        slot.ready.record(self.prep)
        return slot

    def compute(self, previous, current):
        current.ready.waitForCompletion()
        self.flow_alg.calc(previous.half, current.half, self.flow, self.track)
        self.flow.download(self.track, self.host_flow)
        self.track.waitForCompletion()
        return self.host_flow.copy()


def run(path):
    capture = cv2.VideoCapture(path)
    ok, image = capture.read()
    if not ok:
        return []
    rows, cols = image.shape[:2]
    tracker = FlowTracker(rows, cols)
    previous = tracker.prepare(image)
    previous.ready.waitForCompletion()
    speeds = []
    ok, image = capture.read()
    while ok:
        current = tracker.prepare(image)
        ok, image = capture.read()
        flow = tracker.compute(previous, current)
        speeds.append(float(np.linalg.norm(flow, axis=2).mean()))
        previous = current
    return speeds


if __name__ == "__main__":
    print(run("input.mp4")[:20])
