"""Queue and image copy entry points of a small runtime adapter."""
import numpy as np
from cuda.bindings import driver as cu


def ur_check(ret):
    if ret[0] != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(ret[0].name)
    return ret[1] if len(ret) == 2 else None


class UrEvent:
    def __init__(self, stream):
        self.native = ur_check(cu.cuEventCreate(
            cu.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        ur_check(cu.cuEventRecord(self.native, stream))

    def wait(self):
        ur_check(cu.cuEventSynchronize(self.native))


class UrImage:
    def __init__(self, width, height=1, pixel=4):
        self.width, self.height, self.pixel = width, height, pixel
        self.nbytes = width * height * pixel
        self.mem = ur_check(cu.cuMemAlloc(self.nbytes))


class UrQueue:
    def __init__(self):
        self.stream = ur_check(cu.cuStreamCreate(
            cu.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def _wait_list(self, events):
        for ev in events:
            ur_check(cu.cuStreamWaitEvent(self.stream, ev.native, 0))

    def enqueue_fill(self, image, value, wait=()):
        self._wait_list(wait)
        words = image.nbytes // 4
        ur_check(cu.cuMemsetD32Async(image.mem, value, words, self.stream))
        return UrEvent(self.stream)

    def enqueue_image_copy(self, src, dst, wait=()):
        self._wait_list(wait)
        if src.height == 1:
            ur_check(cu.cuMemcpyDtoD(dst.mem, src.mem, src.nbytes))
        else:
            row = src.width * src.pixel
            p = cu.CUDA_MEMCPY2D()
            p.srcMemoryType = p.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
            p.srcDevice, p.dstDevice = src.mem, dst.mem
            p.srcPitch = p.dstPitch = p.WidthInBytes = row
            p.Height = src.height
            ur_check(cu.cuMemcpy2DAsync(p, self.stream))
        return UrEvent(self.stream)

    def enqueue_image_read(self, image, out, wait=()):
        self._wait_list(wait)
        ur_check(cu.cuMemcpyDtoHAsync(out.ctypes.data, image.mem, image.nbytes,
                                      self.stream))
        return UrEvent(self.stream)


def main(width=1 << 26):
    ur_check(cu.cuInit(0))
    dev = ur_check(cu.cuDeviceGet(0))
    ur_check(cu.cuCtxSetCurrent(ur_check(cu.cuDevicePrimaryCtxRetain(dev))))
    queue = UrQueue()
    src, dst = UrImage(width), UrImage(width)
    filled = queue.enqueue_fill(src, 0x01020304)
    copied = queue.enqueue_image_copy(src, dst, [filled])
    out = np.empty(width, np.uint32)
    queue.enqueue_image_read(dst, out, [copied]).wait()
    print(hex(int(out[0])), bool((out == out[0]).all()))


if __name__ == "__main__":
    main()
