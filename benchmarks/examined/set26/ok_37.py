"""CUDA shared memory regions of an inference client."""
import threading
import numpy as np
from cuda.bindings import runtime as cudart

_dlpack_stream = {}
_dlpack_stream_lock = threading.Lock()

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class CudaSharedMemoryException(Exception):
    pass


def call(ret):
    if int(ret[0]) != 0:
        raise CudaSharedMemoryException(str(ret[0]))
    return ret[1] if len(ret) == 2 else None


class CudaStream:
    def __init__(self, device_id):
        call(cudart.cudaSetDevice(device_id))
        self._stream = call(cudart.cudaStreamCreateWithFlags(
            cudart.cudaStreamNonBlocking))


def _get_or_create_global_cuda_stream(device_id):
    with _dlpack_stream_lock:
        if device_id not in _dlpack_stream:
            _dlpack_stream[device_id] = CudaStream(device_id)
    return _dlpack_stream[device_id]._stream


class CudaSharedMemoryRegion:
    def __init__(self, name, byte_size, device_id):
        self.name, self.byte_size, self.device_id = name, byte_size, device_id
        call(cudart.cudaSetDevice(device_id))
        self.base = call(cudart.cudaMalloc(byte_size))


def set_shared_memory_region(region, arrays):
    stream = _get_or_create_global_cuda_stream(region.device_id)
    offset = 0
    for arr in arrays:
        src = np.ascontiguousarray(arr)
        call(cudart.cudaMemcpyAsync(region.base + offset, src.ctypes.data,
                                    src.nbytes, H2D, stream))
        call(cudart.cudaStreamSynchronize(stream))
        offset += src.nbytes


def get_contents_as_numpy(region, dtype, shape, offset=0):
    stream = _get_or_create_global_cuda_stream(region.device_id)
    out = np.empty(shape, dtype)
    call(cudart.cudaMemcpyAsync(out.ctypes.data, region.base + offset,
                                out.nbytes, D2H, stream))
    call(cudart.cudaStreamSynchronize(stream))
    return out


def client(index, results):
    region = CudaSharedMemoryRegion(f"input_{index}", 2 << 22, 0)
    data = np.full((1 << 20,), index, np.float32)
    set_shared_memory_region(region, [data, data + 1])
    results[index] = get_contents_as_numpy(region, np.float32, (1 << 21,))
    call(cudart.cudaFree(region.base))


def main(nthreads=8):
    results = {}
    threads = [threading.Thread(target=client, args=(i, results))
               for i in range(nthreads)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(nthreads):
        assert results[i][0] == i and results[i][-1] == i + 1


if __name__ == "__main__":
    main()
