import os
from typing import Iterator, List

import pycuda.autoprimaryctx  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
import torch
import torch.nn.functional as F


class BatchPreprocessor:
    """Resizes and normalises uint8 frames on a stream of its own."""

    def __init__(self, size: int, device: torch.device):
        self.size = size
        self.stream = torch.cuda.Stream(device)
        self.device = device
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            x = frames.pin_memory().to(self.device, non_blocking=True)
            x = x.permute(0, 3, 1, 2).float().div_(255.0)
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", antialias=True)
            return ((x - self.mean) / self.std).contiguous()


class EntropyCalibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self, frames: Iterator[torch.Tensor], batch_size: int, size: int, cache: str):
        super().__init__()
        self.frames = frames
        self.batch_size = batch_size
        self.cache = cache
        self.preprocess = BatchPreprocessor(size, torch.device("cuda", 0))
        self.nbytes = batch_size * 3 * size * size * 4
        self.d_input = cuda.mem_alloc(self.nbytes)
        self.current = None

    def get_batch_size(self) -> int:
        return self.batch_size

    def get_batch(self, names: List[str]):
        frames = next(self.frames, None)
        if frames is None or frames.shape[0] != self.batch_size:
            return None
        self.current = self.preprocess(frames)
        cuda.memcpy_dtod(self.d_input, self.current.data_ptr(), self.nbytes)
        return [int(self.d_input)]

    def read_calibration_cache(self):
        if os.path.exists(self.cache):
            with open(self.cache, "rb") as f:
                return f.read()
        return None

    def write_calibration_cache(self, cache) -> None:
        with open(self.cache, "wb") as f:
            f.write(cache)


def build_int8(onnx_path: str, frames: Iterator[torch.Tensor], batch=8, size=224) -> bytes:
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    with open(onnx_path, "rb") as f:
        if not parser.parse(f.read()):
            raise RuntimeError(str(parser.get_error(0)))
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = EntropyCalibrator(frames, batch, size, onnx_path + ".calib")
    return bytes(builder.build_serialized_network(network, config))
