"""TensorRT executor with named device tensors (WebNN style)."""
import ctypes
import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(ret):
    err, rest = ret[0], ret[1:]
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


class HostStagingPool:
    def __init__(self):
        self._free = {}

    def acquire(self, nbytes):
        blocks = self._free.setdefault(nbytes, [])
        if blocks:
            return blocks.pop()
        return check(cudart.cudaHostAlloc(nbytes, 0))

    def release(self, ptr, nbytes):
        self._free[nbytes].append(ptr)


class DeviceTensor:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, shape, np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.ptr = check(cudart.cudaMalloc(self.nbytes))


class TrtxContext:
    def __init__(self, engine):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(
            cudart.cudaStreamNonBlocking))
        self.staging = HostStagingPool()

    def write_tensor(self, tensor, data):
        host = self.staging.acquire(tensor.nbytes)
        view = np.ctypeslib.as_array(
            (ctypes.c_uint8 * tensor.nbytes).from_address(host))
        view[:] = np.ascontiguousarray(data, tensor.dtype).view(np.uint8).ravel()
        check(cudart.cudaMemcpyAsync(tensor.ptr, host, tensor.nbytes, H2D, self.stream))
        self.staging.release(host, tensor.nbytes)

    def read_tensor(self, tensor):
        out = np.empty(tensor.shape, tensor.dtype)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, tensor.ptr, tensor.nbytes,
                                     D2H, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return out

    def dispatch(self, inputs, outputs):
        for t in (*inputs, *outputs):
            self.context.set_tensor_address(t.name, t.ptr)
        if not self.context.execute_async_v3(self.stream):
            raise RuntimeError("enqueue failed")


def main(plan_path="add.plan"):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(plan_path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    ctx = TrtxContext(engine)
    shape = (8, 3, 512, 512)
    lhs = DeviceTensor("lhs", shape, np.float32)
    rhs = DeviceTensor("rhs", shape, np.float32)
    out = DeviceTensor("output", shape, np.float32)
    for step in range(10):
        ctx.write_tensor(lhs, np.full(shape, step, np.float32))
        ctx.write_tensor(rhs, np.full(shape, -step, np.float32))
        ctx.dispatch([lhs, rhs], [out])
        print(step, np.abs(ctx.read_tensor(out)).max())


if __name__ == "__main__":
    main()
