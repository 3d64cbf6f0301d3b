"""Output assembly of a model-serving backend, written on the CUDA runtime bindings."""
import numpy as np
from cuda.bindings import runtime as rt


def check(ret):
    err, *rest = ret
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    if not rest:
        return None
    return rest[0] if len(rest) == 1 else rest


H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice


class PinnedArray:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(rt.cudaHostAlloc(self.nbytes, rt.cudaHostAllocDefault))
        import ctypes

        raw = (ctypes.c_byte * self.nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)

    def free(self):
        check(rt.cudaFreeHost(self.ptr))


class DeviceBlock:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMalloc(nbytes))

    def free(self):
        check(rt.cudaFree(self.ptr))


class BackendMemory:
    """Copies between blocks the way the kind of the two ends asks for."""

    @staticmethod
    def copy(dst, src, offset=0):
        check(rt.cudaMemcpy(dst.ptr + offset, src.ptr, src.nbytes, D2D))


class ResponseSender:
    def __init__(self, rows, cols):
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.host = PinnedArray((rows, cols), np.float32)

    def send(self, block):
        check(rt.cudaMemcpyAsync(self.host.ptr, block.ptr, block.nbytes, D2H, self.stream))
        check(rt.cudaStreamSynchronize(self.stream))
        return self.host.array.copy()

    def close(self):
        check(rt.cudaStreamDestroy(self.stream))
        self.host.free()


class ModelInstance:
    def __init__(self, parts, cols):
        self.parts, self.cols = parts, cols
        self.outputs = [DeviceBlock(cols * 4) for _ in range(parts)]
        self.batch = DeviceBlock(parts * cols * 4)
        self.feed = PinnedArray((parts, cols), np.float32)
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))

    def execute(self, values):
        self.feed.array[:] = values
        for i, block in enumerate(self.outputs):
            src = self.feed.ptr + i * self.cols * 4
            check(rt.cudaMemcpyAsync(block.ptr, src, block.nbytes, H2D, self.stream))
        check(rt.cudaStreamSynchronize(self.stream))

    def gather(self):
        for i, block in enumerate(self.outputs):
            BackendMemory.copy(self.batch, block, offset=i * self.cols * 4)
        return self.batch

    def close(self):
        for block in (*self.outputs, self.batch):
            block.free()
        self.feed.free()
        check(rt.cudaStreamDestroy(self.stream))


def main(requests=200, parts=8, cols=1 << 20):
    check(rt.cudaSetDevice(0))
    model = ModelInstance(parts, cols)
    sender = ResponseSender(parts, cols)
    wrong = 0
    try:
        for r in range(requests):
            values = np.full((parts, cols), float(r), dtype=np.float32)
            model.execute(values)
            answer = sender.send(model.gather())
            wrong += int(not np.array_equal(answer, values))
    finally:
        check(rt.cudaDeviceSynchronize())
        sender.close()
        model.close()
    print("failures:", wrong)


if __name__ == "__main__":
    main()
