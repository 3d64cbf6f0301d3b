"""TensorRT plan instance that copies outputs on a stream of its own."""
import ctypes
from collections import deque

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1])
    return values[0] if len(values) == 1 else None


H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class PinnedArray:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_uint8 * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)


class Binding:
    def __init__(self, engine, name, shape):
        self.name = name
        self.shape = shape
        self.dtype = trt.nptype(engine.get_tensor_dtype(name))
        self.nbytes = int(np.prod(shape)) * np.dtype(self.dtype).itemsize
        self.device = check(cudart.cudaMalloc(self.nbytes))


class OutputSlot:
    """Pinned destinations of one request."""

    def __init__(self, bindings):
        self.request_id = None
        self.arrays = {b.name: PinnedArray(b.shape, b.dtype) for b in bindings}
        self.copied = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class PlanContext:
    def __init__(self, plan_path, shapes, separate_output_stream=True):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        nonblocking = cudart.cudaStreamNonBlocking
        self.exec_stream = check(cudart.cudaStreamCreateWithFlags(nonblocking))
        self.output_copy_stream = self.exec_stream
        if separate_output_stream:
            self.output_copy_stream = check(cudart.cudaStreamCreateWithFlags(nonblocking))
        self.ready_for_output = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.inputs, self.outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            binding = Binding(self.engine, name, shapes[name])
            self.context.set_tensor_address(name, int(binding.device))
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.context.set_input_shape(name, shapes[name])
                self.inputs.append(binding)
            else:
                self.outputs.append(binding)

    def run(self, payload, slot):
        for binding in self.inputs:
            host = payload[binding.name]
            check(cudart.cudaMemcpyAsync(int(binding.device), int(host.ptr), binding.nbytes, H2D, self.exec_stream))
        self.context.execute_async_v3(int(self.exec_stream))
        check(cudart.cudaEventRecord(self.ready_for_output, self.exec_stream))
        check(cudart.cudaStreamWaitEvent(self.output_copy_stream, self.ready_for_output, 0))
        for binding in self.outputs:
            target = slot.arrays[binding.name]
            check(cudart.cudaMemcpyAsync(
                int(target.ptr), int(binding.device), binding.nbytes, D2H, self.output_copy_stream
            ))
        check(cudart.cudaEventRecord(slot.copied, self.output_copy_stream))


class ModelInstance:
    def __init__(self, context, max_in_flight=4):
        self.context = context
        self.free_slots = deque(OutputSlot(context.outputs) for _ in range(max_in_flight))
        self.completion = deque()
        self.responses = {}

    def execute(self, request_id, payload):
        if not self.free_slots:
            self._complete_one()
        slot = self.free_slots.popleft()
        slot.request_id = request_id
        self.context.run(payload, slot)
        self.completion.append(slot)

    def _complete_one(self):
        slot = self.completion.popleft()
        check(cudart.cudaEventSynchronize(slot.copied))
        self.responses[slot.request_id] = {n: p.array.copy() for n, p in slot.arrays.items()}
        self.free_slots.append(slot)

    def finish(self):
        while self.completion:
            self._complete_one()
        return self.responses


def serve(plan_path, shapes, payloads):
    """payloads: list of {input name: PinnedArray}, kept alive by the caller."""
    instance = ModelInstance(PlanContext(plan_path, shapes))
    for request_id, payload in enumerate(payloads):
        instance.execute(request_id, payload)
    return instance.finish()
