import ctypes

import numpy as np
import tensorrt as trt
from cuda import cudart


def check(ret):
    if ret[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(ret[0])
    return ret[1] if len(ret) > 1 else None


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(ptr)
        self.host = np.frombuffer(raw, dtype=dtype).reshape(shape)
        self.device = check(cudart.cudaMalloc(self.nbytes))


class Classifier:
    def __init__(self, engine_path):
        runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        with open(engine_path, "rb") as f:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.ctx = self.engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreate())
        self.image = HostDeviceMem((8, 3, 224, 224), np.float32)
        self.scores = HostDeviceMem((8, 1000), np.float32)
        self.ctx.set_tensor_address("image", self.image.device)
        self.ctx.set_tensor_address("scores", self.scores.device)

    def infer(self, batch):
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        np.copyto(self.image.host, batch)
        check(cudart.cudaMemcpyAsync(self.image.device, self.image.host.ctypes.data, self.image.nbytes, h2d, self.stream))
        self.ctx.execute_async_v3(self.stream)
        check(cudart.cudaMemcpyAsync(self.scores.host.ctypes.data, self.scores.device, self.scores.nbytes, d2h, self.stream))
        return self.scores.host


def postprocess(scores, k=5):
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    probs = exp / exp.sum(axis=1, keepdims=True)
    return np.argsort(-probs, axis=1)[:, :k]


def main():
    clf = Classifier("resnet50.plan")
    image = np.random.rand(8, 3, 224, 224).astype(np.float32)
    print(postprocess(clf.infer(image)))


if __name__ == "__main__":
    main()
