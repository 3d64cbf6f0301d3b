"""TensorRT engine wrapper with static device bindings on a private stream."""
from __future__ import annotations

import threading
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


class EngineRunner:
    def __init__(self, plan: Path, device: torch.device) -> None:
        self.device = device
        self.lock = threading.Lock()
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = runtime.deserialize_cuda_engine(plan.read_bytes())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        self.inputs: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        with torch.cuda.stream(self.stream):
            for index in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(index)
                shape = tuple(self.engine.get_tensor_shape(name))
                dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
                tensor = torch.zeros(shape, dtype=dtype, device=device)
                self.context.set_tensor_address(name, tensor.data_ptr())
                if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                    self.inputs[name] = tensor
                else:
                    self.outputs[name] = tensor

    def _fill(self, name: str, value: torch.Tensor) -> None:
        target = self.inputs[name]
        if value.shape != target.shape:
            raise ValueError(f"{name}: expected {tuple(target.shape)}, got {tuple(value.shape)}")
        target.copy_(value)

    @torch.inference_mode()
    def __call__(self, **values: torch.Tensor) -> dict[str, torch.Tensor]:
        missing = set(self.inputs) - set(values)
        if missing:
            raise TypeError(f"missing inputs: {sorted(missing)}")
        with self.lock:
            caller = torch.cuda.current_stream(self.device)
            self.stream.wait_stream(caller)
            try:
                with torch.cuda.stream(self.stream):
                    for name in self.inputs:
                        self._fill(name, values[name])
                    if not self.context.execute_async_v3(self.stream.cuda_stream):
                        raise RuntimeError("engine execution failed")
                    results = {name: t.clone() for name, t in self.outputs.items()}
            finally:
                caller.wait_stream(self.stream)
            for tensor in results.values():
                tensor.record_stream(caller)
            return results


class Ensemble:
    def __init__(self, plans: list[Path], device: torch.device) -> None:
        self.runners = [EngineRunner(plan, device) for plan in plans]

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        scores = [runner(image=image)["scores"].float() for runner in self.runners]
        return torch.stack(scores).mean(0)


def main(paths: list[str]) -> None:
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    ensemble = Ensemble([Path(p) for p in paths], device)
    for _ in range(10):
        image = torch.rand(1, 3, 224, 224, device=device)
        print(ensemble(image).argmax(-1).tolist())


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
