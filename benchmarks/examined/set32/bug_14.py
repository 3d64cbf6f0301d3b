"""Pipeline operator that materialises device tensors as messages for a network publisher."""
import ctypes
import queue
import struct
import threading

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return values[0] if values else None


class PinnedBlock:
    """Page-locked host block that grows on demand."""

    def __init__(self):
        self.ptr = None
        self.capacity = 0

    def reserve(self, nbytes):
        if nbytes > self.capacity:
            if self.ptr is not None:
                check(cudart.cudaFreeHost(self.ptr))
            self.ptr = check(cudart.cudaMallocHost(nbytes))
            self.capacity = nbytes
        return self.ptr

    def view(self, nbytes):
        return (ctypes.c_ubyte * nbytes).from_address(int(self.ptr))


class TensorMaterializer:
    """Copies the tensor of a message into host memory on the operator's stream."""

    def __init__(self):
        self._block = PinnedBlock()

    def to_bytes(self, tensor, stream=None):
        tensor = cp.ascontiguousarray(tensor)
        dst = self._block.reserve(tensor.nbytes)
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        if stream is not None:
            check(
                cudart.cudaMemcpyAsync(dst, tensor.data.ptr, tensor.nbytes, kind, stream.ptr)
            )
        else:
            check(cudart.cudaMemcpy(dst, tensor.data.ptr, tensor.nbytes, kind))
        header = struct.pack("<BB", tensor.ndim, tensor.dtype.num)
        header += struct.pack(f"<{tensor.ndim}q", *tensor.shape)
        return header + bytes(self._block.view(tensor.nbytes))


class Publisher(threading.Thread):
    def __init__(self, send):
        super().__init__(daemon=True)
        self.send = send
        self.inbox = queue.Queue(maxsize=32)

    def run(self):
        while True:
            message = self.inbox.get()
            if message is None:
                return
            self.send(message)


class SegmentationOperator:
    def __init__(self, publisher, threshold=0.5):
        self.publisher = publisher
        self.threshold = threshold
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.materializer = TensorMaterializer()

    def compute(self, frame):
        """frame: host array [H, W] of float32."""
        with self.stream:
            img = cp.asarray(frame)
            for _ in range(8):
                img = (
                    cp.roll(img, 1, 0) + cp.roll(img, -1, 0) + cp.roll(img, 1, 1) + img
                ) * 0.25
            mask = (img > self.threshold).astype(cp.uint8)
            self.publisher.inbox.put(self.materializer.to_bytes(mask, self.stream))


def main():
    sizes = []
    publisher = Publisher(lambda m: sizes.append(sum(m[18:4096])))
    publisher.start()
    op = SegmentationOperator(publisher)
    rng = np.random.default_rng(0)
    for _ in range(50):
        op.compute(rng.random((2160, 3840), dtype=np.float32))
    publisher.inbox.put(None)
    publisher.join()
    print(len(sizes))


if __name__ == "__main__":
    main()
