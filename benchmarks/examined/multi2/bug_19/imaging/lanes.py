import numpy as np
import pycuda.driver as drv


class Lane:
    """One camera: its stream, its pinned frames, its device planes."""

    def __init__(self, name, width, height):
        self.name = name
        self.width, self.height = width, height
        self.stream = drv.Stream()
        self.frame = drv.pagelocked_empty((height, width), np.float32)
        self.result = drv.pagelocked_empty((height, width), np.float32)
        self.src = drv.mem_alloc(self.frame.nbytes)
        self.dst = drv.mem_alloc(self.frame.nbytes)

    def issue(self, denoiser):
        drv.memcpy_htod_async(self.src, self.frame, self.stream)
        denoiser.apply(self.src, self.dst, self.width, self.height, self.stream)
        drv.memcpy_dtoh_async(self.result, self.dst, self.stream)

    def collect(self):
        self.stream.synchronize()
        return self.result


def make_lanes(names, width, height):
    return [Lane(n, width, height) for n in names]


def by_name(lanes, name):
    for lane in lanes:
        if lane.name == name:
            return lane
    raise KeyError(name)


def footprint(lanes):
    """Device and host bytes that the lanes keep for good."""
    each = [lane.frame.nbytes for lane in lanes]
    return {"device": 2 * sum(each), "host": 2 * sum(each)}
