"""TensorRT engine behind a torch interface, callable from several threads and streams."""
from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tensorrt as trt
import torch

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT8: torch.int8,
    trt.DataType.BOOL: torch.bool,
}


class TrtModule:
    def __init__(self, path: Path, device: torch.device):
        self.device = device
        torch.cuda.set_device(device)
        self._logger = trt.Logger(trt.Logger.WARNING)
        self._engine = trt.Runtime(self._logger).deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            raise RuntimeError(f"cannot load {path}")
        self._context = self._engine.create_execution_context()
        self._lock = threading.Lock()
        self._idle = torch.cuda.Event()
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        is_input = {n: self._engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT for n in names}
        self.inputs = [n for n in names if is_input[n]]
        self.outputs = [n for n in names if not is_input[n]]

    def _prepare(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        dtype = _DTYPES[self._engine.get_tensor_dtype(name)]
        if tensor.device != self.device:
            raise ValueError(f"{name} must be on {self.device}")
        return tensor.detach().to(dtype).contiguous()

    def __call__(self, **feeds: torch.Tensor) -> dict[str, torch.Tensor]:
        if set(feeds) != set(self.inputs):
            raise ValueError(f"expected inputs {self.inputs}")
        torch.cuda.set_device(self.device)
        stream = torch.cuda.current_stream(self.device)
        ready = {name: self._prepare(name, tensor) for name, tensor in feeds.items()}
        results: dict[str, torch.Tensor] = {}
        with self._lock:
            for name, tensor in ready.items():
                self._context.set_input_shape(name, tuple(tensor.shape))
                self._context.set_tensor_address(name, tensor.data_ptr())
            for name in self.outputs:
                shape = tuple(self._context.get_tensor_shape(name))
                dtype = _DTYPES[self._engine.get_tensor_dtype(name)]
                results[name] = torch.empty(shape, dtype=dtype, device=self.device)
                self._context.set_tensor_address(name, results[name].data_ptr())
            stream.wait_event(self._idle)
            try:
                if not self._context.execute_async_v3(stream.cuda_stream):
                    raise RuntimeError("enqueue failed")
            finally:
                self._idle.record(stream)
        return results

    def close(self) -> None:
        with self._lock:
            self._idle.synchronize()
            self._context = None


def serve(module: TrtModule, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stream = torch.cuda.Stream(device=module.device)
    with torch.cuda.stream(stream):
        feeds = {name: tensor.to(module.device) for name, tensor in batch.items()}
        return {name: value.cpu() for name, value in module(**feeds).items()}


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: ok_50.py ENGINE [BATCH.pt ...]")
    module = TrtModule(Path(sys.argv[1]), torch.device("cuda", 0))
    batches = [torch.load(path) for path in sys.argv[2:]]
    try:
        with ThreadPoolExecutor(max_workers=4) as pool:
            for result in pool.map(lambda batch: serve(module, batch), batches):
                print({name: tuple(value.shape) for name, value in result.items()})
    finally:
        module.close()


if __name__ == "__main__":
    main()
