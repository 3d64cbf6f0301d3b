from typing import Dict, List

import numpy as np
import tensorrt as trt
import torch

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
}


class SegmentationEngine:
    """Pre-processing, inference and post-processing on a single stream."""

    def __init__(self, plan: bytes, batch: int, height: int, width: int):
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.frame = torch.empty((batch, height, width, 3), dtype=torch.uint8, pin_memory=True)
        self.tensors: Dict[str, torch.Tensor] = {}
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1)
            self.std = torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1)
            for i in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(i)
                if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                    self.context.set_input_shape(name, (batch, 3, height, width))
                    self.input_name = name
            for i in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(i)
                shape = tuple(self.context.get_tensor_shape(name))
                dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
                self.tensors[name] = torch.empty(shape, dtype=dtype, device="cuda")
                self.context.set_tensor_address(name, self.tensors[name].data_ptr())
                if name != self.input_name:
                    self.output_name = name
        self.mask = torch.empty((batch, height, width), dtype=torch.uint8, pin_memory=True)

    def _preprocess(self) -> None:
        image = self.frame.cuda(non_blocking=True).permute(0, 3, 1, 2).float()
        self.tensors[self.input_name].copy_((image - self.mean) / self.std)

    def _postprocess(self) -> None:
        logits = self.tensors[self.output_name]
        self.mask.copy_(logits.argmax(dim=1).to(torch.uint8), non_blocking=True)

    def infer(self, images: np.ndarray) -> np.ndarray:
        self.frame.numpy()[...] = images
        with torch.cuda.stream(self.stream):
            self._preprocess()
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError("enqueue failed")
            self._postprocess()
        self.stream.synchronize()
        return self.mask.numpy().copy()


def segment_video(engine: SegmentationEngine, batches) -> List[np.ndarray]:
    return [engine.infer(batch) for batch in batches]
