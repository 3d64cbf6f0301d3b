"""TensorRT engine on torch tensors: own stream, joined with the stream of the caller."""
from typing import Dict, List

import numpy as np
import tensorrt as trt
import torch

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
    trt.DataType.BOOL: torch.bool,
}


class TRTModule:
    def __init__(self, path: str, device: torch.device):
        self.device = device
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = {n: self.engine.get_tensor_mode(n) for n in names}
        self.inputs = [n for n in names if mode[n] == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if mode[n] == trt.TensorIOMode.OUTPUT]

    def __call__(self, feeds: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        results = {}
        with torch.cuda.stream(self.stream):
            for name in self.inputs:
                tensor = feeds[name].contiguous()
                tensor.record_stream(self.stream)
                feeds[name].record_stream(self.stream)
                self.context.set_input_shape(name, tuple(tensor.shape))
                self.context.set_tensor_address(name, tensor.data_ptr())
                results.setdefault("_inputs", []).append(tensor)
            for name in self.outputs:
                shape = tuple(self.context.get_tensor_shape(name))
                out = torch.empty(shape, dtype=_DTYPES[self.engine.get_tensor_dtype(name)], device=self.device)
                self.context.set_tensor_address(name, out.data_ptr())
                results[name] = out
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError("TensorRT execution failed")
        current.wait_stream(self.stream)
        results.pop("_inputs", None)
        for out in results.values():
            out.record_stream(current)
        return results


class Segmenter:
    def __init__(self, engine_path: str, device: torch.device):
        self.device = device
        self.model = TRTModule(engine_path, device)

    @torch.inference_mode()
    def __call__(self, frames: List[np.ndarray]) -> List[np.ndarray]:
        batch = torch.from_numpy(np.stack(frames)).to(self.device)
        batch = batch.permute(0, 3, 1, 2).float().div_(255.0)
        logits = self.model({"images": batch})["logits"]
        masks = logits.argmax(1).to(torch.uint8)
        return list(masks.cpu().numpy())
