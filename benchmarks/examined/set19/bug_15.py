"""Detector and classifier engines that share one set of device bindings to save memory."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


def pinned(nbytes, dtype):
    ptr = check(cudart.cudaMallocHost(nbytes))
    return ptr, np.frombuffer((ctypes.c_byte * nbytes).from_address(int(ptr)), dtype=dtype)


class SharedBindings:
    """One input and one output allocation, large enough for every engine."""

    def __init__(self):
        self.sizes = {"input": 0, "output": 0}
        self.ptrs = {}

    def require(self, role, nbytes):
        self.sizes[role] = max(self.sizes[role], nbytes)

    def allocate(self):
        for role, nbytes in self.sizes.items():
            self.ptrs[role] = check(cudart.cudaMalloc(nbytes))


class EngineRunner:
    def __init__(self, runtime, plan_path, bindings):
        with open(plan_path, "rb") as f:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.bindings = bindings
        self.names, self.nbytes, self.host, self.host_ptr = {}, {}, {}, {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            role = "input" if is_input else "output"
            dtype = np.dtype(trt.nptype(self.engine.get_tensor_dtype(name)))
            nbytes = int(np.prod(tuple(self.engine.get_tensor_shape(name)))) * dtype.itemsize
            self.names[role], self.nbytes[role] = name, nbytes
            self.host_ptr[role], self.host[role] = pinned(nbytes, dtype)
            bindings.require(role, nbytes)

    def bind(self):
        for role, name in self.names.items():
            self.context.set_tensor_address(name, int(self.bindings.ptrs[role]))

    def infer_async(self, batch):
        np.copyto(self.host["input"], batch.ravel())
        check(cudart.cudaMemcpyAsync(
            self.bindings.ptrs["input"], self.host_ptr["input"], self.nbytes["input"], H2D, self.stream))
        self.context.execute_async_v3(int(self.stream))
        check(cudart.cudaMemcpyAsync(
            self.host_ptr["output"], self.bindings.ptrs["output"], self.nbytes["output"], D2H, self.stream))

    def result(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        return self.host["output"].copy()


class Pipeline:
    def __init__(self, detector_plan, classifier_plan):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.bindings = SharedBindings()
        self.detector = EngineRunner(self.runtime, detector_plan, self.bindings)
        self.classifier = EngineRunner(self.runtime, classifier_plan, self.bindings)
        self.bindings.allocate()
        self.detector.bind()
        self.classifier.bind()

    def process(self, frame, crops):
        self.detector.infer_async(frame)
        self.classifier.infer_async(crops)
        return self.detector.result(), self.classifier.result()


def main(frames, crops_of):
    pipe = Pipeline("yolo.plan", "inception.plan")
    for frame in frames:
        boxes, labels = pipe.process(frame, crops_of(frame))
        print(boxes[:4], labels[:4])
