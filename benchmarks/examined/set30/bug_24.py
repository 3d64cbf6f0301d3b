"""Uploads checkpoint blobs to device memory through two pinned staging buffers."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

STAGING_BYTES = 32 << 20


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


class StagedUploader:
    def __init__(self, nbytes=STAGING_BYTES):
        self.nbytes = nbytes
        self.buffers = []
        self.views = []
        self.streams = []
        for _ in range(2):
            ptr = check(cudart.cudaMallocHost(nbytes))
            raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
            self.buffers.append(ptr)
            self.views.append(np.ctypeslib.as_array(raw))
            self.streams.append(
                check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
            )

    def upload(self, dst, blob):
        data = np.frombuffer(blob, dtype=np.uint8)
        busy = [False, False]
        for chunk, offset in enumerate(range(0, data.size, self.nbytes)):
            idx = chunk % 2
            size = min(self.nbytes, data.size - offset)
            if busy[idx]:
                check(cudart.cudaStreamSynchronize(self.streams[idx]))
            self.views[idx][:size] = data[offset:offset + size]
            check(cudart.cudaMemcpyAsync(
                int(dst) + offset,
                self.buffers[idx],
                size,
                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
                self.streams[idx],
            ))
            busy[idx] = True

    def finish(self):
        for stream in self.streams:
            check(cudart.cudaStreamSynchronize(stream))

    def close(self):
        self.finish()
        for ptr, stream in zip(self.buffers, self.streams):
            check(cudart.cudaFreeHost(ptr))
            check(cudart.cudaStreamDestroy(stream))


def load_weights(blobs):
    """blobs: mapping of name to bytes-like; returns name -> (device pointer, size)."""
    table = {}
    for name, blob in blobs.items():
        table[name] = (check(cudart.cudaMalloc(len(blob))), len(blob))
    uploader = StagedUploader()
    try:
        for name, blob in blobs.items():
            uploader.upload(table[name][0], blob)
        uploader.finish()
    finally:
        uploader.close()
    return table


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    sizes = {"embed": 48 << 20, "head": 20 << 20, "norm": 1 << 16}
    weights = load_weights({k: rng.bytes(v) for k, v in sizes.items()})
    print({k: v[1] for k, v in weights.items()})
