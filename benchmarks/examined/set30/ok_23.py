"""Three-stage cropping pipeline (load, crop, store) on the CUDA runtime bindings."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


def pinned(nbytes, shape):
    ptr = check(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
    return ptr, np.ctypeslib.as_array(raw).reshape(shape)


def new_event():
    return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class Slot:
    def __init__(self, src, dst):
        self.h_in, self.image = pinned(src[0] * src[1], src)
        self.h_out, self.patch = pinned(dst[0] * dst[1], dst)
        self.d_in = check(cudart.cudaMalloc(src[0] * src[1]))
        self.d_out = check(cudart.cudaMalloc(dst[0] * dst[1]))
        self.loaded, self.cropped, self.stored = new_event(), new_event(), new_event()
        self.tag = None


class Cropper:
    def __init__(self, src, dst, depth=2):
        self.src, self.dst = src, dst
        flags = cudart.cudaStreamNonBlocking
        self.load, self.crop, self.store = (
            check(cudart.cudaStreamCreateWithFlags(flags)) for _ in range(3)
        )
        self.slots = [Slot(src, dst) for _ in range(depth)]
        self.turn = 0

    def _collect(self, slot):
        if slot.tag is None:
            return None
        check(cudart.cudaEventSynchronize(slot.stored))
        tag, slot.tag = slot.tag, None
        return tag, slot.patch.copy()

    def submit(self, tag, image, top, left):
        """Returns the finished (tag, patch) that had used the slot before, or None."""
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        finished = self._collect(slot)
        slot.image[...] = image
        n = self.src[0] * self.src[1]
        check(cudart.cudaMemcpyAsync(slot.d_in, slot.h_in, n, H2D, self.load))
        check(cudart.cudaEventRecord(slot.loaded, self.load))
        check(cudart.cudaStreamWaitEvent(self.crop, slot.loaded, 0))
        h, w = self.dst
        begin = int(slot.d_in) + top * self.src[1] + left
        check(cudart.cudaMemcpy2DAsync(
            slot.d_out, w, begin, self.src[1], w, h, D2D, self.crop))
        check(cudart.cudaEventRecord(slot.cropped, self.crop))
        check(cudart.cudaStreamWaitEvent(self.store, slot.cropped, 0))
        check(cudart.cudaMemcpyAsync(slot.h_out, slot.d_out, h * w, D2H, self.store))
        check(cudart.cudaEventRecord(slot.stored, self.store))
        slot.tag = tag
        return finished

    def drain(self):
        for _ in self.slots:
            slot = self.slots[self.turn]
            self.turn = (self.turn + 1) % len(self.slots)
            finished = self._collect(slot)
            if finished is not None:
                yield finished


def main(count=32):
    rng = np.random.default_rng(0)
    cropper = Cropper((2048, 2048), (512, 512))
    out = []
    for i in range(count):
        image = rng.integers(0, 255, (2048, 2048), dtype=np.uint8)
        done = cropper.submit(i, image, i, 2 * i)
        if done is not None:
            out.append(done)
    out.extend(cropper.drain())
    return {tag: int(patch.sum()) for tag, patch in out}


if __name__ == "__main__":
    print(main())
