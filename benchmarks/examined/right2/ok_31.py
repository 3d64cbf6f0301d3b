from dataclasses import dataclass, field

import numpy as np
import tensorrt as trt
import torch

TRT_TO_TORCH = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
}


@dataclass
class Binding:
    name: str
    device: torch.Tensor
    host: torch.Tensor = field(default=None)


class TRTRunner:
    """Runs an engine on a torch stream with pinned results."""

    def __init__(self, path: str):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as handle:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(handle.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()
        self.inputs: list[Binding] = []
        self.outputs: list[Binding] = []
        for index in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(index)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = TRT_TO_TORCH[self.engine.get_tensor_dtype(name)]
            binding = Binding(name, torch.zeros(shape, dtype=dtype, device="cuda"),
                              torch.zeros(shape, dtype=dtype, pin_memory=True))
            self.context.set_tensor_address(name, binding.device.data_ptr())
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs).append(binding)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.finished.record(self.stream)

    def submit(self, arrays: list[np.ndarray]) -> None:
        self.finished.synchronize()
        for binding, array in zip(self.inputs, arrays):
            np.copyto(binding.host.numpy(), array)
        with torch.cuda.stream(self.stream):
            for binding in self.inputs:
                binding.device.copy_(binding.host, non_blocking=True)
            self.context.execute_async_v3(self.stream.cuda_stream)
            for binding in self.outputs:
                binding.host.copy_(binding.device, non_blocking=True)
            self.finished.record(self.stream)

    def fetch(self) -> dict[str, np.ndarray]:
        self.finished.synchronize()
        return {b.name: b.host.numpy().copy() for b in self.outputs}

    def close(self) -> None:
        self.stream.synchronize()
        self.context = None
        self.engine = None


def classify(path: str, frames, preprocess, postprocess):
    runner = TRTRunner(path)
    try:
        waiting = False
        for frame in frames:
            array = preprocess(frame)
            if waiting:
                postprocess(runner.fetch())
            runner.submit([array])
            waiting = True
        if waiting:
            postprocess(runner.fetch())
    finally:
        runner.close()
