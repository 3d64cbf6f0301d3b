"""TensorRT backend: responses are copied out on a separate stream."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as rt


def check(res):
    err, rest = res[0], res[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class Response:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMallocHost(nbytes))
        self.array = np.ctypeslib.as_array(
            ctypes.cast(self.ptr, ctypes.POINTER(ctypes.c_float)), (nbytes // 4,))
        self.event = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def wait(self):
        check(rt.cudaEventSynchronize(self.event))
        return self.array


class PlanBackend:
    def __init__(self, engine, in_bytes, out_bytes):
        self.context = engine.create_execution_context()
        self.in_bytes, self.out_bytes = in_bytes, out_bytes
        flags = rt.cudaStreamNonBlocking
        self.stream = check(rt.cudaStreamCreateWithFlags(flags))
        self.output_stream = check(rt.cudaStreamCreateWithFlags(flags))
        self.ready_for_output = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.d_in = check(rt.cudaMalloc(in_bytes))
        self.d_out = check(rt.cudaMalloc(out_bytes))
        self.context.set_tensor_address(engine.get_tensor_name(0), int(self.d_in))
        self.context.set_tensor_address(engine.get_tensor_name(1), int(self.d_out))

    def enqueue(self, request):
        kind = rt.cudaMemcpyKind
        check(rt.cudaMemcpyAsync(self.d_in, request.ctypes.data, self.in_bytes,
                                 kind.cudaMemcpyHostToDevice, self.stream))
        self.context.execute_async_v3(int(self.stream))
        check(rt.cudaEventRecord(self.ready_for_output, self.stream))
        response = Response(self.out_bytes)
        check(rt.cudaStreamWaitEvent(self.output_stream, self.ready_for_output, 0))
        check(rt.cudaMemcpyAsync(response.ptr, self.d_out, self.out_bytes,
                                 kind.cudaMemcpyDeviceToHost, self.output_stream))
        check(rt.cudaEventRecord(response.event, self.output_stream))
        return response


def main():
    with open("model.plan", "rb") as f:
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(f.read())
    shape_in, n_out = (8, 3, 512, 512), 8 * 21 * 512 * 512
    backend = PlanBackend(engine, int(np.prod(shape_in)) * 4, n_out * 4)
    requests = [np.full(shape_in, i, np.float32) for i in range(6)]
    responses = [backend.enqueue(r) for r in requests]
    for i, response in enumerate(responses):
        print(i, response.wait().mean())


if __name__ == "__main__":
    main()
