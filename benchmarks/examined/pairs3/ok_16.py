"""Stabilised preview of a camera with OpenCV CUDA: pinned slots and events."""
from dataclasses import dataclass

import cv2
import numpy as np


@dataclass
class Slot:
    src: np.ndarray
    dst: np.ndarray
    gpu: cv2.cuda.GpuMat
    small: cv2.cuda.GpuMat
    done: cv2.cuda.Event
    busy: bool = False


class PreviewPipeline:
    def __init__(self, size=(1920, 1080), preview=(640, 360), depth=3):
        w, h = size
        self.preview = preview
        self.stream = cv2.cuda.Stream()
        self.pinned = []
        self.slots = []
        for _ in range(depth):
            hin = cv2.cuda.HostMem(h, w, cv2.CV_8UC3)
            hout = cv2.cuda.HostMem(preview[1], preview[0], cv2.CV_8UC3)
            self.pinned.append((hin, hout))
            self.slots.append(Slot(hin.createMatHeader(), hout.createMatHeader(),
                                   cv2.cuda.GpuMat(h, w, cv2.CV_8UC3),
                                   cv2.cuda.GpuMat(preview[1], preview[0], cv2.CV_8UC3),
                                   cv2.cuda.Event()))
        self._head = 0

    def submit(self, frame):
        slot = self.slots[self._head]
        out = self._collect(slot)
        np.copyto(slot.src, frame)
        slot.gpu.upload(slot.src, self.stream)
        cv2.cuda.resize(slot.gpu, self.preview, slot.small, interpolation=cv2.INTER_AREA,
                        stream=self.stream)
        slot.small.download(self.stream, slot.dst)
        slot.done.record(self.stream)
        slot.busy = True
        self._head = (self._head + 1) % len(self.slots)
        return out

    def _collect(self, slot):
        if not slot.busy:
            return None
        slot.done.waitForCompletion()
        slot.busy = False
        return slot.dst.copy()


def main():
    cap = cv2.VideoCapture(0)
    pipeline = PreviewPipeline()
    while True:
        ok, frame = cap.read()
        if not ok:
            break
        preview = pipeline.submit(frame)
        if preview is not None:
            cv2.imshow("preview", preview)
            if cv2.waitKey(1) == 27:
                break


if __name__ == "__main__":
    main()
