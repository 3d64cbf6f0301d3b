import logging
from typing import Dict, List, Optional, Sequence, Tuple

import tensorrt as trt
import torch

logger = logging.getLogger(__name__)

_TRT_TO_TORCH = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.BF16: torch.bfloat16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
    trt.DataType.BOOL: torch.bool,
}


class TorchTensorRTModule(torch.nn.Module):
    """Runs a serialized engine; inputs and outputs are torch tensors."""

    def __init__(self, serialized_engine: bytes, input_binding_names: Sequence[str],
                 output_binding_names: Sequence[str], device: torch.device):
        super().__init__()
        self.device = device
        self.input_names = list(input_binding_names)
        self.output_names = list(output_binding_names)
        self._trt_logger = trt.Logger(trt.Logger.WARNING)
        self._runtime = trt.Runtime(self._trt_logger)
        self.engine = self._runtime.deserialize_cuda_engine(serialized_engine)
        self.context = self.engine.create_execution_context()
        self.input_dtypes = [_TRT_TO_TORCH[self.engine.get_tensor_dtype(n)] for n in self.input_names]
        self.output_dtypes = [_TRT_TO_TORCH[self.engine.get_tensor_dtype(n)] for n in self.output_names]
        self._engine_stream = torch.cuda.Stream(device)
        self._shape_key: Optional[str] = None

    def _validate_input_shapes(self, inputs: Sequence[torch.Tensor]) -> bool:
        key = "".join(str(tuple(t.shape)).replace(" ", "") for t in inputs)
        changed = key != self._shape_key
        self._shape_key = key
        return changed

    def setup_input_tensors(self, inputs: Sequence[torch.Tensor], shape_changed: bool) -> None:
        for i, name in enumerate(self.input_names):
            tensor = inputs[i]
            if tensor.dtype != self.input_dtypes[i]:
                logger.debug("casting input %s to %s", name, self.input_dtypes[i])
                tensor = tensor.to(self.input_dtypes[i])
            tensor = tensor.contiguous()
            if shape_changed:
                self.context.set_input_shape(name, tuple(tensor.shape))
            self.context.set_tensor_address(name, tensor.data_ptr())

    def create_output_tensors(self) -> List[torch.Tensor]:
        outputs = []
        for name, dtype in zip(self.output_names, self.output_dtypes):
            shape = tuple(self.context.get_tensor_shape(name))
            outputs.append(torch.empty(shape, dtype=dtype, device=self.device))
        return outputs

    def forward(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        if len(inputs) != len(self.input_names):
            raise ValueError(f"expected {len(self.input_names)} inputs, got {len(inputs)}")
        inputs = [t if t.is_cuda else t.to(self.device) for t in inputs]
        shape_changed = self._validate_input_shapes(inputs)
        self.setup_input_tensors(inputs, shape_changed)

        outputs = self.create_output_tensors()
        for name, out in zip(self.output_names, outputs):
            self.context.set_tensor_address(name, out.data_ptr())

        caller_stream = torch.cuda.current_stream(self.device)
        self._engine_stream.wait_stream(caller_stream)
        with torch.cuda.stream(self._engine_stream):
            ok = self.context.execute_async_v3(self._engine_stream.cuda_stream)
        caller_stream.wait_stream(self._engine_stream)
        if not ok:
            raise RuntimeError("failed to enqueue the engine")
        return tuple(outputs)


class PackedLatentsTransformer(torch.nn.Module):
    def __init__(self, trt_module: TorchTensorRTModule):
        super().__init__()
        self.trt_module = trt_module

    @torch.no_grad()
    def forward(self, latents: torch.Tensor, timestep: torch.Tensor, steps: int) -> torch.Tensor:
        for i in range(steps):
            packed = latents.permute(0, 2, 3, 1).flatten(1, 2)
            (noise,) = self.trt_module(packed.transpose(1, 2), timestep[i].expand(latents.shape[0]))
            latents = latents - noise.unflatten(-1, latents.shape[-2:]) / steps
        return latents
