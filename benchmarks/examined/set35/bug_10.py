"""Volume upload and slab extraction with cuda.bindings."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        _, name = cudart.cudaGetErrorName(err)
        raise RuntimeError(name.decode())
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


class DeviceVolume:
    def __init__(self, shape, pad: int = 0, dtype=np.float32):
        self.shape = (shape[0] + pad,) + tuple(shape[1:])
        self.dtype = np.dtype(dtype)
        self.plane = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        self.nbytes = self.plane * self.shape[0]
        self.pad = pad
        self.ptr = check(cudart.cudaMalloc(self.nbytes))

    def upload(self, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array, dtype=self.dtype)
        check(cudart.cudaMemcpy(self.ptr, data.ctypes.data, data.nbytes,
                                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
        if self.pad:
            check(cudart.cudaMemset(int(self.ptr) + data.nbytes, 0, self.pad * self.plane))

    def free(self) -> None:
        check(cudart.cudaFree(self.ptr))


class PinnedArray:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)

    def free(self) -> None:
        check(cudart.cudaFreeHost(self.ptr))


class SlabExtractor:
    """Copies the slabs of a volume into a packed buffer on its own stream."""

    def __init__(self, volume: DeviceVolume, slab_depth: int):
        self.volume = volume
        self.slab_shape = (slab_depth,) + volume.shape[1:]
        self.packed = DeviceVolume(self.slab_shape, dtype=volume.dtype)
        self.host = PinnedArray(self.slab_shape, volume.dtype)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def extract(self, first: int) -> np.ndarray:
        source = int(self.volume.ptr) + first * self.volume.plane
        check(cudart.cudaMemcpyAsync(self.packed.ptr, source, self.packed.nbytes,
                                     cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
                                     self.stream))
        check(cudart.cudaMemcpyAsync(self.host.ptr, self.packed.ptr, self.packed.nbytes,
                                     cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                                     self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return self.host.array.copy()

    def close(self) -> None:
        check(cudart.cudaStreamDestroy(self.stream))
        self.packed.free()
        self.host.free()


def process(frames, depth: int, pad: int) -> float:
    volume = DeviceVolume(frames[0].shape, pad)
    extractor = SlabExtractor(volume, depth)
    total = 0.0
    try:
        for frame in frames:
            volume.upload(frame)
            tail = extractor.extract(volume.shape[0] - depth)
            total += float(np.abs(tail[:-pad] - frame[pad - depth:]).max())
            total += float(np.abs(tail[-pad:]).max())
    finally:
        extractor.close()
        volume.free()
    return total


def main() -> None:
    check(cudart.cudaSetDevice(0))
    rng = np.random.default_rng(0)
    frames = [rng.standard_normal((256, 512, 512), dtype=np.float32) for _ in range(4)]
    print("deviation", process(frames, depth=16, pad=4))


if __name__ == "__main__":
    main()
