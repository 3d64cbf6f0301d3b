import ctypes
from dataclasses import dataclass

import numpy as np
from cuda import cudart

KIND = cudart.cudaMemcpyKind


def call(fn, *args):
    out = fn(*args)
    if out[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{fn.__name__}: {out[0]}")
    return out[1] if len(out) > 1 else None


@dataclass
class Surface:
    ptr: int
    nbytes: int
    decoded: object


class Transcoder:
    def __init__(self, width=1920, height=1080):
        self.nbytes = width * height * 3 // 2
        self.decode = call(cudart.cudaStreamCreateWithFlags, cudart.cudaStreamNonBlocking)
        self.encode = call(cudart.cudaStreamCreateWithFlags, cudart.cudaStreamNonBlocking)
        self.encoder_ring = [call(cudart.cudaMalloc, self.nbytes) for _ in range(64)]
        host = call(cudart.cudaMallocHost, self.nbytes)
        self.bitstream = np.frombuffer((ctypes.c_uint8 * self.nbytes).from_address(host), dtype=np.uint8)
        self.bitstream[:] = 128

    def decode_frame(self, luma):
        ptr = call(cudart.cudaMallocAsync, self.nbytes, self.decode)
        call(cudart.cudaMemcpyAsync, ptr, self.bitstream.ctypes.data, self.nbytes, KIND.cudaMemcpyHostToDevice, self.decode)
        call(cudart.cudaMemsetAsync, ptr, luma, self.nbytes * 2 // 3, self.decode)
        event = call(cudart.cudaEventCreate)
        call(cudart.cudaEventRecord, event, self.decode)
        return Surface(ptr, self.nbytes, event)

    def encode_frame(self, surface, index):
        call(cudart.cudaStreamWaitEvent, self.encode, surface.decoded, 0)
        call(cudart.cudaMemcpyAsync, self.encoder_ring[index], surface.ptr, surface.nbytes, KIND.cudaMemcpyDeviceToDevice, self.encode)
        call(cudart.cudaFreeAsync, surface.ptr, self.decode)
        call(cudart.cudaEventDestroy, surface.decoded)

    def run(self, frames):
        for i in range(frames):
            self.encode_frame(self.decode_frame(i), i)
        call(cudart.cudaStreamSynchronize, self.encode)
        call(cudart.cudaStreamSynchronize, self.decode)


if __name__ == "__main__":
    Transcoder().run(64)
