"""Two-lane TensorRT classifier: one lane fills while the other one runs."""
import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart
import ctypes


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


def pinned(count):
    address = check(cudart.cudaMallocHost(4 * count))
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(address)))


class Lane:
    def __init__(self, n_in, n_out):
        self.stream = check(cudart.cudaStreamCreate())
        self.host_in, self.host_out = pinned(n_in), pinned(n_out)
        self.dev_in = check(cudart.cudaMalloc(4 * n_in))
        self.dev_out = check(cudart.cudaMalloc(4 * n_out))
        self.busy = False


class Classifier:
    """Keeps two requests in flight."""

    def __init__(self, path, n_in=3 * 224 * 224, n_out=1000):
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as handle:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(handle.read())
        self.context = self.engine.create_execution_context()
        self.lanes = [Lane(n_in, n_out) for _ in range(2)]

    def _start(self, lane, image):
        kind = cudart.cudaMemcpyKind
        lane.host_in[:] = image
        check(cudart.cudaMemcpyAsync(lane.dev_in, lane.host_in.ctypes.data, lane.host_in.nbytes,
                                     kind.cudaMemcpyHostToDevice, lane.stream))
        self.context.set_tensor_address("input", int(lane.dev_in))
        self.context.set_tensor_address("logits", int(lane.dev_out))
        self.context.execute_async_v3(int(lane.stream))
        check(cudart.cudaMemcpyAsync(lane.host_out.ctypes.data, lane.dev_out, lane.host_out.nbytes,
                                     kind.cudaMemcpyDeviceToHost, lane.stream))
        lane.busy = True

    def _finish(self, lane):
        check(cudart.cudaStreamSynchronize(lane.stream))
        lane.busy = False
        return int(lane.host_out.argmax())

    def classify(self, images):
        for i, image in enumerate(images):
            lane = self.lanes[i % 2]
            if lane.busy:
                yield self._finish(lane)
            self._start(lane, image)
        for lane in self.lanes:
            if lane.busy:
                yield self._finish(lane)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    images = [rng.random(3 * 224 * 224, dtype=np.float32) for _ in range(32)]
    print(list(Classifier("resnet50.plan").classify(images)))
