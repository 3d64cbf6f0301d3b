"""Hybrid module: a TensorRT engine in the middle of eager PyTorch code."""
from typing import Dict, Sequence

import tensorrt as trt
import torch
import torch.nn as nn

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
}


class EngineModule(nn.Module):
    """Runs a serialized engine; enqueueing on the default stream is avoided."""

    def __init__(self, serialized: bytes, device: str = "cuda"):
        super().__init__()
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = runtime.deserialize_cuda_engine(serialized)
        self.context = self.engine.create_execution_context()
        self.device = torch.device(device)
        self._engine_stream = torch.cuda.Stream(self.device)
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = self.engine.get_tensor_mode
        self.input_names = [n for n in names if mode(n) == trt.TensorIOMode.INPUT]
        self.output_names = [n for n in names if mode(n) == trt.TensorIOMode.OUTPUT]

    def _stream_for_call(self) -> torch.cuda.Stream:
        current = torch.cuda.current_stream(self.device)
        if current == torch.cuda.default_stream(self.device):
            self._engine_stream.wait_stream(current)
            return self._engine_stream
        return current

    def _allocate_outputs(self) -> Dict[str, torch.Tensor]:
        outputs = {}
        for name in self.output_names:
            shape = tuple(self.context.get_tensor_shape(name))
            dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
            outputs[name] = torch.empty(shape, dtype=dtype, device=self.device)
            self.context.set_tensor_address(name, outputs[name].data_ptr())
        return outputs

    def forward(self, *inputs: torch.Tensor) -> Sequence[torch.Tensor]:
        inputs = [x.contiguous() for x in inputs]
        for name, x in zip(self.input_names, inputs):
            self.context.set_input_shape(name, tuple(x.shape))
            self.context.set_tensor_address(name, x.data_ptr())
        outputs = self._allocate_outputs()
        stream = self._stream_for_call()
        self.context.execute_async_v3(stream.cuda_stream)
        for x in inputs:
            x.record_stream(stream)
        return [outputs[n] for n in self.output_names]


class HybridDetector(nn.Module):
    def __init__(self, engine: EngineModule, classes: int = 80):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.engine = engine
        self.classes = classes

    @torch.inference_mode()
    def forward(self, images: torch.Tensor):
        x = torch.relu(self.stem(images))
        (raw,) = self.engine(x)
        boxes = raw[..., :4]
        scores = raw[..., 4 : 4 + self.classes].sigmoid()
        best, label = scores.max(dim=-1)
        return boxes * best.unsqueeze(-1), label


def main(path: str = "neck_head.engine", batches: int = 50):
    with open(path, "rb") as f:
        engine = EngineModule(f.read())
    model = HybridDetector(engine).cuda().eval()
    seen = torch.zeros(model.classes, device="cuda")
    for _ in range(batches):
        images = torch.rand(4, 3, 640, 640, device="cuda")
        boxes, label = model(images)
        seen += torch.bincount(label.flatten(), minlength=model.classes)
    print(seen.argmax().item())


if __name__ == "__main__":
    main()
