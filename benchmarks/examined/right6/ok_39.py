from collections import deque

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

KIND = cudart.cudaMemcpyKind


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else None


class Lane:
    """An execution context with its own stream, device blocks and host arrays."""

    def __init__(self, engine, in_shape, out_shape):
        self.context = engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventBlockingSync))
        self.h_in = np.zeros(in_shape, np.float32)
        self.h_out = np.zeros(out_shape, np.float32)
        for arr in (self.h_in, self.h_out):
            check(cudart.cudaHostRegister(arr.ctypes.data, arr.nbytes, 0))
        self.d_in = check(cudart.cudaMalloc(self.h_in.nbytes))
        self.d_out = check(cudart.cudaMalloc(self.h_out.nbytes))
        self.context.set_tensor_address("images", self.d_in)
        self.context.set_tensor_address("logits", self.d_out)

    def submit(self, images):
        self.h_in[...] = images
        check(cudart.cudaMemcpyAsync(self.d_in, self.h_in.ctypes.data, self.h_in.nbytes,
                                     KIND.cudaMemcpyHostToDevice, self.stream))
        self.context.execute_async_v3(int(self.stream))
        check(cudart.cudaMemcpyAsync(self.h_out.ctypes.data, self.d_out, self.h_out.nbytes,
                                     KIND.cudaMemcpyDeviceToHost, self.stream))
        check(cudart.cudaEventRecord(self.done, self.stream))

    def collect(self):
        check(cudart.cudaEventSynchronize(self.done))
        return self.h_out.argmax(axis=1)

    def close(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        for arr in (self.h_in, self.h_out):
            check(cudart.cudaHostUnregister(arr.ctypes.data))
        check(cudart.cudaFree(self.d_in))
        check(cudart.cudaFree(self.d_out))


def classify(engine, batches, lanes=3):
    idle = deque(Lane(engine, (16, 3, 224, 224), (16, 1000)) for _ in range(lanes))
    everything = list(idle)
    running = deque()
    try:
        for batch in batches:
            if not idle:
                lane = running.popleft()
                yield lane.collect()
                idle.append(lane)
            lane = idle.popleft()
            lane.submit(batch)
            running.append(lane)
        while running:
            yield running.popleft().collect()
    finally:
        for lane in everything:
            lane.close()


def main():
    logger = trt.Logger(trt.Logger.ERROR)
    with open("resnet.plan", "rb") as f:
        engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
    rng = np.random.default_rng(0)
    batches = (rng.random((16, 3, 224, 224), dtype=np.float32) for _ in range(12))
    for labels in classify(engine, batches):
        print(labels[:4])


if __name__ == "__main__":
    main()
