"""Two execution contexts, two streams: batches alternate, uploads and downloads overlap with inference."""
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


class HostDeviceMem:
    def __init__(self, shape, dtype):
        dtype = np.dtype(dtype)
        size = int(np.prod(shape))
        self.nbytes = size * dtype.itemsize
        self.host_ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.host_ptr))
        self.host = np.frombuffer(raw, dtype=dtype).reshape(shape)
        self.device = check(cudart.cudaMalloc(self.nbytes))

    def free(self):
        check(cudart.cudaFree(self.device))
        check(cudart.cudaFreeHost(self.host_ptr))


class Lane:
    """Everything one in-flight batch needs: a context, a stream and its own buffers."""

    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.inputs, self.outputs = {}, {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            mem = HostDeviceMem(tuple(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = mem
            self.context.set_tensor_address(name, int(mem.device))
        self.tag = None

    def launch(self, tag, feed):
        assert self.tag is None
        for name, array in feed.items():
            mem = self.inputs[name]
            np.copyto(mem.host, array)
            check(cudart.cudaMemcpyAsync(mem.device, mem.host_ptr, mem.nbytes, H2D, self.stream))
        self.context.execute_async_v3(int(self.stream))
        for mem in self.outputs.values():
            check(cudart.cudaMemcpyAsync(mem.host_ptr, mem.device, mem.nbytes, D2H, self.stream))
        self.tag = tag

    def collect(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        result = self.tag, {name: mem.host.copy() for name, mem in self.outputs.items()}
        self.tag = None
        return result

    def close(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        for mem in (*self.inputs.values(), *self.outputs.values()):
            mem.free()
        check(cudart.cudaStreamDestroy(self.stream))


class MultiStreamRunner:
    def __init__(self, plan_path, num_lanes=2):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(plan_path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.lanes = [Lane(self.engine) for _ in range(num_lanes)]

    def infer(self, feeds):
        turn = 0
        for tag, feed in enumerate(feeds):
            lane = self.lanes[turn]
            if lane.tag is not None:
                yield lane.collect()
            lane.launch(tag, feed)
            turn = (turn + 1) % len(self.lanes)
        for k in range(len(self.lanes)):
            lane = self.lanes[(turn + k) % len(self.lanes)]
            if lane.tag is not None:
                yield lane.collect()

    def close(self):
        for lane in self.lanes:
            lane.close()


if __name__ == "__main__":
    runner = MultiStreamRunner("model.plan")
    shape = tuple(runner.engine.get_tensor_shape("x"))
    batches = ({"x": np.random.rand(*shape).astype(np.float32)} for _ in range(32))
    for tag, outputs in runner.infer(batches):
        print(tag, {k: float(v.sum()) for k, v in outputs.items()})
    runner.close()
