"""Detector pool: one engine, one execution context per worker, one set of I/O buffers for all of them."""
import ctypes
import queue
import threading

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def pinned_array(shape, dtype):
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    ptr = check(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_uint8 * nbytes).from_address(ptr)
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


class IOBuffers:
    def __init__(self, engine):
        self.names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.host, self.device = {}, {}
        for name in self.names:
            shape = tuple(engine.get_tensor_shape(name))
            dtype = trt.nptype(engine.get_tensor_dtype(name))
            self.host[name] = pinned_array(shape, dtype)
            self.device[name] = check(cudart.cudaMalloc(self.host[name].nbytes))
        self.inputs = [n for n in self.names if engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in self.names if n not in self.inputs]
        self.lock = threading.Lock()


class DetectorWorker(threading.Thread):
    def __init__(self, engine, buffers, requests, results):
        super().__init__(daemon=True)
        self.buffers = buffers
        self.requests = requests
        self.results = results
        self.context = engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        for name in buffers.names:
            self.context.set_tensor_address(name, buffers.device[name])

    def infer(self, frame):
        b = self.buffers
        kind = cudart.cudaMemcpyKind
        with b.lock:
            for name in b.inputs:
                np.copyto(b.host[name], frame)
                check(cudart.cudaMemcpyAsync(b.device[name], b.host[name].ctypes.data,
                                             b.host[name].nbytes,
                                             kind.cudaMemcpyHostToDevice, self.stream))
            self.context.execute_async_v3(self.stream)
            for name in b.outputs:
                check(cudart.cudaMemcpyAsync(b.host[name].ctypes.data, b.device[name],
                                             b.host[name].nbytes,
                                             kind.cudaMemcpyDeviceToHost, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return {name: b.host[name].copy() for name in b.outputs}

    def run(self):
        while True:
            item = self.requests.get()
            if item is None:
                return
            idx, frame = item
            self.results.put((idx, self.infer(frame)))


def main(plan="yolov7.plan", num_workers=2, num_frames=200):
    logger = trt.Logger(trt.Logger.WARNING)
    with open(plan, "rb") as f:
        engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
    buffers = IOBuffers(engine)
    requests, results = queue.Queue(maxsize=16), queue.Queue()
    workers = [DetectorWorker(engine, buffers, requests, results) for _ in range(num_workers)]
    for w in workers:
        w.start()
    shape = buffers.host[buffers.inputs[0]].shape
    rng = np.random.default_rng(0)
    for i in range(num_frames):
        requests.put((i, rng.random(shape, dtype=np.float32)))
    for _ in workers:
        requests.put(None)
    for w in workers:
        w.join()
    detections = dict(results.get() for _ in range(num_frames))
    print(len(detections))


if __name__ == "__main__":
    main()
