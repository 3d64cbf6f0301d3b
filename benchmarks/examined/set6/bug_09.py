from pathlib import Path
from typing import Dict, List, Optional

import tensorrt as trt
import torch

_TRT_TO_TORCH = {
    trt.DataType.HALF: torch.float16,
    trt.DataType.BF16: torch.bfloat16,
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
}


class ModelRunnerTrt:
    def __init__(self, engine: trt.ICudaEngine, max_prompt_embedding_table_size: int, device: int = 0):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.device = torch.device("cuda", device)
        self.stream = torch.cuda.Stream(self.device)
        self.max_table = max_prompt_embedding_table_size
        self._buffers: Dict[str, torch.Tensor] = {}

    @classmethod
    def from_dir(cls, engine_dir: str, max_prompt_embedding_table_size: int = 0) -> "ModelRunnerTrt":
        logger = trt.Logger(trt.Logger.WARNING)
        runtime = trt.Runtime(logger)
        engine = runtime.deserialize_cuda_engine(Path(engine_dir, "rank0.engine").read_bytes())
        return cls(engine, max_prompt_embedding_table_size)

    @property
    def dtype(self) -> torch.dtype:
        return _TRT_TO_TORCH[self.engine.get_tensor_dtype("prompt_embedding_table")]

    def _prepare_embedding_table(self, prompt_table: Optional[torch.Tensor]) -> torch.Tensor:
        if prompt_table is None:
            return torch.empty((1, self.hidden_size), dtype=self.dtype, device=self.device)
        table = prompt_table.view(-1, prompt_table.size(-1))
        assert table.size(0) <= self.max_table
        return table.to(dtype=self.dtype, device=self.device)

    @property
    def hidden_size(self) -> int:
        return self.engine.get_tensor_shape("prompt_embedding_table")[-1]

    def _bind(self, name: str, tensor: torch.Tensor) -> None:
        self._buffers[name] = tensor
        if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            self.context.set_input_shape(name, tuple(tensor.shape))
        self.context.set_tensor_address(name, tensor.data_ptr())

    def generate(
        self,
        batch_input_ids: List[torch.Tensor],
        prompt_table: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        input_ids = torch.nn.utils.rnn.pad_sequence(batch_input_ids, batch_first=True)
        input_ids = input_ids.to(device=self.device, dtype=torch.int32)
        self._bind("input_ids", input_ids)
        self._bind("prompt_embedding_table", self._prepare_embedding_table(prompt_table))

        shape = tuple(self.context.get_tensor_shape("logits"))
        dtype = _TRT_TO_TORCH[self.engine.get_tensor_dtype("logits")]
        self._bind("logits", torch.empty(shape, dtype=dtype, device=self.device))

        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("TensorRT execution failed")
        self.stream.synchronize()
        return self._buffers["logits"]
