import numpy as np
import tensorrt as trt
from cuda import cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class TensorNet:
    def __init__(self, plan):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = None
        self.device = {}
        self.host = {}
        self.inputs, self.outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            nbytes = int(np.prod(shape)) * 4
            self.device[name] = (check(cudart.cudaMalloc(nbytes)), nbytes, shape)
            self.context.set_tensor_address(name, self.device[name][0])
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.inputs.append(name)
            else:
                self.outputs.append(name)

    def create_stream(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        return self.stream

    def process_network(self, sync=True):
        """Run the engine on the bound tensors."""
        if sync:
            self.context.execute_async_v3(0)
            check(cudart.cudaStreamSynchronize(0))
        else:
            self.context.execute_async_v3(int(self.stream))


class DetectNet(TensorNet):
    def __init__(self, plan, width, height):
        super().__init__(plan)
        self.create_stream()
        nbytes = self.device[self.inputs[0]][1]
        self.staging_ptr = check(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocDefault))
        shape = self.device[self.inputs[0]][2]
        import ctypes

        buf = (ctypes.c_float * int(np.prod(shape))).from_address(int(self.staging_ptr))
        self.staging = np.ctypeslib.as_array(buf).reshape(shape)
        for name in self.outputs:
            self.host[name] = np.empty(self.device[name][2], dtype=np.float32)

    def pre_process(self, image):
        self.staging[...] = image.transpose(2, 0, 1)[None] / 255.0
        ptr, nbytes, _ = self.device[self.inputs[0]]
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpyAsync(ptr, self.staging_ptr, nbytes, kind, self.stream))

    def detect(self, image):
        self.pre_process(image)
        self.process_network(sync=True)
        for name in self.outputs:
            ptr, nbytes, _ = self.device[name]
            kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
            check(cudart.cudaMemcpyAsync(self.host[name].ctypes.data, ptr, nbytes, kind, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return {name: self.host[name].copy() for name in self.outputs}


if __name__ == "__main__":
    net = DetectNet("ssd_mobilenet.engine", 300, 300)
    for _ in range(100):
        frame = np.random.randint(0, 255, (300, 300, 3), dtype=np.uint8)
        print({k: v.shape for k, v in net.detect(frame).items()})
