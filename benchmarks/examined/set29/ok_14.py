"""TensorRT models called from several request threads, one stream per model."""
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorrt as trt
import torch

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
}


class TRTModel:
    def __init__(self, engine_path: str, device: torch.device) -> None:
        self.device = device
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(engine_path, "rb") as f:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        self.lock = threading.Lock()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.input_name = next(
            n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT
        )
        self.output_names = [n for n in names if n != self.input_name]

    def _execute(self, batch: torch.Tensor) -> list[torch.Tensor]:
        """Queues the engine on the model's stream; `batch` belongs to that stream."""
        if not self.context.set_input_shape(self.input_name, tuple(batch.shape)):
            raise ValueError(f"shape {tuple(batch.shape)} is outside of the profile")
        self.context.set_tensor_address(self.input_name, batch.data_ptr())
        outputs = []
        for name in self.output_names:
            shape = tuple(self.context.get_tensor_shape(name))
            dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
            out = torch.empty(shape, dtype=dtype, device=self.device)
            self.context.set_tensor_address(name, out.data_ptr())
            outputs.append(out)
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("enqueue failed")
        return outputs

    def infer(self, images: torch.Tensor) -> list[torch.Tensor]:
        caller_stream = torch.cuda.current_stream(self.device)
        with self.lock, torch.cuda.stream(self.stream):
            self.stream.wait_stream(caller_stream)
            batch = images.to(torch.float32).div(255.0).contiguous()
            outputs = self._execute(batch)
            self.stream.synchronize()
        for out in outputs:
            out.record_stream(caller_stream)
        return outputs


class Detector:
    def __init__(self, model: TRTModel, threshold: float) -> None:
        self.model = model
        self.threshold = threshold

    def __call__(self, image: np.ndarray) -> np.ndarray:
        pixels = torch.from_numpy(image).to(self.model.device).permute(2, 0, 1).unsqueeze(0)
        boxes, scores = self.model.infer(pixels)
        keep = scores[0] > self.threshold
        return torch.cat([boxes[0][keep], scores[0][keep].unsqueeze(-1)], dim=-1).cpu().numpy()


def serve(detectors: dict[str, Detector], requests: list[tuple[str, np.ndarray]]) -> list[np.ndarray]:
    def handle(request: tuple[str, np.ndarray]) -> np.ndarray:
        name, image = request
        torch.cuda.set_device(detectors[name].model.device)
        return detectors[name](image)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(handle, requests))


if __name__ == "__main__":
    dev = torch.device("cuda", 0)
    zoo = {n: Detector(TRTModel(f"{n}.engine", dev), 0.4) for n in ("person", "vehicle")}
    work = [
        (("person", "vehicle")[i % 2], np.random.randint(0, 255, (640, 640, 3), dtype=np.uint8))
        for i in range(32)
    ]
    print([r.shape for r in serve(zoo, work)])
