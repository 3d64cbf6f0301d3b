"""Threaded TensorRT server: execution contexts in a pool of lanes."""
import ctypes
import queue
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(result[0])[1])
    return result[1] if len(result) > 1 else None


class HostDevice:
    def __init__(self, shape, dtype):
        count = int(np.prod(shape))
        self.nbytes = count * np.dtype(dtype).itemsize
        self._ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_uint8 * self.nbytes).from_address(self._ptr)
        self.host = np.frombuffer(raw, dtype).reshape(shape)
        self.device = check(cudart.cudaMalloc(self.nbytes))

    def upload(self, stream):
        check(cudart.cudaMemcpyAsync(self.device, self._ptr, self.nbytes, H2D, stream))

    def download(self, stream):
        check(cudart.cudaMemcpyAsync(self._ptr, self.device, self.nbytes, D2H, stream))


class Lane:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            mem = HostDevice(tuple(engine.get_tensor_shape(name)),
                             trt.nptype(engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, mem.device)
            mode = engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs).append(mem)

    def sync(self):
        check(cudart.cudaStreamSynchronize(self.stream))

    def infer(self, arrays):
        for mem, array in zip(self.inputs, arrays):
            np.copyto(mem.host, array)
            mem.upload(self.stream)
        if not self.context.execute_async_v3(self.stream):
            return None
        for mem in self.outputs:
            mem.download(self.stream)
        self.sync()
        return [mem.host.copy() for mem in self.outputs]


class Server:
    def __init__(self, path, lanes=3, attempts=2):
        self.logger = trt.Logger(trt.Logger.ERROR)
        self.runtime = trt.Runtime(self.logger)
        with open(path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.attempts = attempts
        self.free = queue.Queue()
        for _ in range(lanes):
            self.free.put(Lane(self.engine))

    @contextmanager
    def lane(self):
        lane = self.free.get()
        try:
            yield lane
        finally:
            lane.sync()
            self.free.put(lane)

    def __call__(self, *arrays):
        for _ in range(self.attempts):
            with self.lane() as lane:
                result = lane.infer(arrays)
            if result is not None:
                return result
        raise RuntimeError("inference failed")


if __name__ == "__main__":
    import sys

    server = Server(sys.argv[1])
    batches = [np.random.rand(1, 3, 224, 224).astype(np.float32) for _ in range(64)]
    with ThreadPoolExecutor(8) as pool:
        print([r[0].argmax() for r in pool.map(server, batches)])
