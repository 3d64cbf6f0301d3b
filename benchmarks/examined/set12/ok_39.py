import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt

_LOGGER = trt.Logger(trt.Logger.WARNING)


class Binding:
    def __init__(self, name, shape, dtype):
        self.name = name
        self.host = cupyx.zeros_pinned(shape, dtype=dtype)
        self.device = cp.zeros(shape, dtype=dtype)

    def upload(self, stream):
        self.device.data.copy_from_host_async(self.host.ctypes.data, self.host.nbytes, stream)

    def download(self, stream):
        self.device.data.copy_to_host_async(self.host.ctypes.data, self.host.nbytes, stream)


class StereoEngine:
    def __init__(self, plan):
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(_LOGGER).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.inputs, self.outputs = {}, {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            binding = Binding(name, shape, trt.nptype(self.engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, binding.device.data.ptr)
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = binding
        cp.cuda.get_current_stream().synchronize()
        self.graph = self._capture()

    def _capture(self):
        for _ in range(2):
            self.context.execute_async_v3(self.stream.ptr)
        self.stream.synchronize()
        self.stream.begin_capture()
        self.context.execute_async_v3(self.stream.ptr)
        return self.stream.end_capture()

    def infer(self, **images):
        for name, image in images.items():
            np.copyto(self.inputs[name].host, image)
            self.inputs[name].upload(self.stream)
        self.graph.launch(self.stream)
        for binding in self.outputs.values():
            binding.download(self.stream)
        self.stream.synchronize()
        return {name: b.host.copy() for name, b in self.outputs.items()}


def disparity_video(plan, pairs, preprocess):
    engine = StereoEngine(plan)
    for left, right in pairs:
        out = engine.infer(left=preprocess(left), right=preprocess(right))
        yield out["disp_pred"][0]
