"""Waterfall display: lines go up to the device and are rolled into an image."""
import ctypes

import numpy as np
from cuda.bindings import driver


def cu(result):
    code, *out = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(code))
    return out[0] if out else None


class LineSlot:
    def __init__(self, nbytes):
        self.pinned = cu(driver.cuMemAllocHost(nbytes))
        memory = (ctypes.c_uint8 * nbytes).from_address(int(self.pinned))
        self.pixels = np.frombuffer(memory, dtype=np.uint8)
        self.line = cu(driver.cuMemAlloc(nbytes))
        flag = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self.uploaded = cu(driver.cuEventCreate(flag))
        self.rolled = cu(driver.cuEventCreate(flag))


class Waterfall:
    """The image has one row per line, the newest replaces the oldest."""

    def __init__(self, width, height, slots=3):
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.width, self.height = width, height
        self.upload = cu(driver.cuStreamCreate(flag))
        self.roll = cu(driver.cuStreamCreate(flag))
        self.image = cu(driver.cuMemAlloc(width * height))
        self.slots = [LineSlot(width) for _ in range(slots)]
        self.lines = 0

    def push(self, spectrum):
        slot = self.slots[self.lines % len(self.slots)]
        cu(driver.cuEventSynchronize(slot.uploaded))
        slot.pixels[:] = spectrum
        cu(driver.cuStreamWaitEvent(self.upload, slot.rolled, 0))
        cu(driver.cuMemcpyHtoDAsync(slot.line, slot.pinned, self.width, self.upload))
        cu(driver.cuEventRecord(slot.uploaded, self.upload))
        cu(driver.cuStreamWaitEvent(self.upload, slot.uploaded, 0))
        row = int(self.image) + (self.lines % self.height) * self.width
        cu(driver.cuMemcpyDtoDAsync(row, slot.line, self.width, self.roll))
        cu(driver.cuEventRecord(slot.rolled, self.roll))
        self.lines += 1

    def snapshot(self):
        picture = np.empty(self.width * self.height, dtype=np.uint8)
        cu(driver.cuMemcpyDtoHAsync(picture.ctypes.data, self.image, picture.nbytes, self.roll))
        cu(driver.cuStreamSynchronize(self.roll))
        return picture.reshape(self.height, self.width)


def main(width=1 << 20, height=64):
    cu(driver.cuInit(0))
    context = cu(driver.cuDevicePrimaryCtxRetain(cu(driver.cuDeviceGet(0))))
    cu(driver.cuCtxSetCurrent(context))
    rng = np.random.default_rng(3)
    fall = Waterfall(width, height)
    for _ in range(256):
        fall.push(rng.integers(0, 255, width, dtype=np.uint8))
    print(fall.snapshot().mean(axis=1)[:4])


if __name__ == "__main__":
    main()
