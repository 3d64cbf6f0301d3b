"""Device buffers with checked and unchecked host-to-device copies."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


class PinnedBlock:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = int(check(cudart.cudaHostAlloc(nbytes, 0)))
        raw = (ctypes.c_byte * nbytes).from_address(self.ptr)
        self.bytes = np.frombuffer(raw, dtype=np.uint8)
        self.done = check(
            cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.armed = False

    def wait_free(self):
        if self.armed:
            check(cudart.cudaEventSynchronize(self.done))
            self.armed = False


class DeviceBuffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMalloc(nbytes))

    def copy_from_host(self, stream, host):
        """Borrowed source: may be dropped or reused when this returns."""
        check(cudart.cudaMemcpyAsync(
            self.ptr, host.ctypes.data, host.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))
        check(cudart.cudaStreamSynchronize(stream))

    def copy_from_pinned_unchecked(self, stream, block):
        check(cudart.cudaMemcpyAsync(
            self.ptr, block.ptr, block.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream))


class Uploader:
    def __init__(self, nbytes, depth=2):
        self.stream = check(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.slots = [PinnedBlock(nbytes) for _ in range(depth)]
        self.turn = 0

    def submit(self, array, dst):
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        slot.wait_free()
        slot.bytes[:] = array.view(np.uint8)
        dst.copy_from_pinned_unchecked(self.stream, slot)
        check(cudart.cudaEventRecord(slot.done, self.stream))
        slot.armed = True

    def finish(self):
        check(cudart.cudaStreamSynchronize(self.stream))


def main():
    n = 1 << 20
    up = Uploader(n * 4)
    header = np.arange(16, dtype=np.uint32)
    head_dev = DeviceBuffer(header.nbytes)
    head_dev.copy_from_host(up.stream, header)
    header[:] = 0
    targets = [DeviceBuffer(n * 4) for _ in range(6)]
    for i, dst in enumerate(targets):
        up.submit(np.full(n, i, np.float32), dst)
    up.finish()
    out = np.empty(n, np.float32)
    check(cudart.cudaMemcpy(
        out.ctypes.data, targets[3].ptr, out.nbytes,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert (out == 3).all()


if __name__ == "__main__":
    main()
