import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def checked(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if rest else None


def pinned_ndarray(shape, dtype):
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    ptr = checked(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_byte * nbytes).from_address(int(ptr))
    return np.frombuffer(raw, dtype=dtype).reshape(shape), nbytes


class TRTWrapper:
    def __init__(self, trt_file, shapes):
        self.logger = trt.Logger(trt.Logger.ERROR)
        trt.init_libnvinfer_plugins(self.logger, "")
        with open(trt_file, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = checked(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.buffer = {}
        self._setup(shapes)

    def _is_input(self, name):
        return self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT

    def _setup(self, shapes):
        for name in self.names:
            if self._is_input(name):
                self.context.set_input_shape(name, shapes[name])
        for name in self.names:
            shape = tuple(self.context.get_tensor_shape(name))
            host, nbytes = pinned_ndarray(shape, trt.nptype(self.engine.get_tensor_dtype(name)))
            device = checked(cudart.cudaMalloc(nbytes))
            self.context.set_tensor_address(name, int(device))
            self.buffer[name] = (host, int(device), nbytes)

    def infer(self, feed):
        for name, value in feed.items():
            host, device, nbytes = self.buffer[name]
            np.copyto(host, value)
            checked(
                cudart.cudaMemcpyAsync(
                    device, host.ctypes.data, nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream
                )
            )
        self.context.execute_async_v3(int(self.stream))
        outputs = {}
        for name in self.names:
            if self._is_input(name):
                continue
            host, device, nbytes = self.buffer[name]
            checked(
                cudart.cudaMemcpyAsync(
                    host.ctypes.data, device, nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream
                )
            )
            outputs[name] = host
        return outputs


class WarpF3D:
    def __init__(self, model_path, shapes):
        self.model = TRTWrapper(model_path, shapes)

    def __call__(self, feature_3d, kp_source, kp_driving):
        outputs = self.model.infer({"feature_3d": feature_3d, "kp_source": kp_source, "kp_driving": kp_driving})
        out = outputs["out"][0]
        frame = np.clip(out.transpose(1, 2, 0) * 255.0, 0, 255)
        return frame.astype(np.uint8)
