"""TensorRT through cuda-python: the engine reports when an input may be refilled."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda import cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


class Pinned:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype).reshape(shape)


class Session:
    def __init__(self, plan: bytes, inp: str, out: str):
        self.engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        self.ctx = self.engine.create_execution_context()
        self.h_in = Pinned(tuple(self.engine.get_tensor_shape(inp)), np.float32)
        self.h_out = Pinned(tuple(self.engine.get_tensor_shape(out)), np.float32)
        self.d_in = check(cudart.cudaMalloc(self.h_in.nbytes))
        self.d_out = check(cudart.cudaMalloc(self.h_out.nbytes))
        self.ctx.set_tensor_address(inp, self.d_in)
        self.ctx.set_tensor_address(out, self.d_out)
        flags = cudart.cudaStreamNonBlocking
        self.copy = check(cudart.cudaStreamCreateWithFlags(flags))
        self.run = check(cudart.cudaStreamCreateWithFlags(flags))
        no_timing = cudart.cudaEventDisableTiming
        self.loaded = check(cudart.cudaEventCreateWithFlags(no_timing))
        self.consumed = check(cudart.cudaEventCreateWithFlags(no_timing))
        self.ctx.set_input_consumed_event(int(self.consumed))

    def infer_all(self, images):
        out = []
        first = True
        for image in images:
            if not first:
                check(cudart.cudaEventSynchronize(self.loaded))
            self.h_in.array[...] = image
            if not first:
                check(cudart.cudaStreamWaitEvent(self.copy, self.consumed, 0))
            kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
            check(cudart.cudaMemcpyAsync(self.d_in, self.h_in.ptr, self.h_in.nbytes, kind, self.copy))
            check(cudart.cudaEventRecord(self.loaded, self.copy))
            if not first:
                check(cudart.cudaStreamSynchronize(self.run))
                out.append(self.h_out.array.copy())
            check(cudart.cudaStreamWaitEvent(self.run, self.loaded, 0))
            self.ctx.execute_async_v3(int(self.run))
            kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
            check(cudart.cudaMemcpyAsync(self.h_out.ptr, self.d_out, self.h_out.nbytes, kind, self.run))
            first = False
        if not first:
            check(cudart.cudaStreamSynchronize(self.run))
            out.append(self.h_out.array.copy())
        return out


if __name__ == "__main__":
    import sys

    with open(sys.argv[1], "rb") as f:
        s = Session(f.read(), "input", "logits")
    rng = np.random.default_rng(0)
    res = s.infer_all(rng.random(s.h_in.array.shape, dtype=np.float32) for _ in range(20))
    print([int(r.argmax()) for r in res])
