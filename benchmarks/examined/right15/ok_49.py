"""Runs a TensorRT engine on a stream of its own with torch tensors as buffers."""
import argparse

import tensorrt as trt
import torch

_DTYPES = {trt.DataType.FLOAT: torch.float32, trt.DataType.HALF: torch.float16,
           trt.DataType.INT32: torch.int32, trt.DataType.BOOL: torch.bool}


class EngineRunner:
    def __init__(self, path, device="cuda:0"):
        self.device = torch.device(device)
        self.logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(self.logger)
        with open(path, "rb") as handle:
            self.engine = self.runtime.deserialize_cuda_engine(handle.read())
        if self.engine is None:
            raise RuntimeError(f"cannot load {path}")
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(self.device)
        self.inputs, self.outputs = {}, {}
        with torch.cuda.stream(self.stream):
            for i in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(i)
                shape = tuple(self.engine.get_tensor_shape(name))
                if any(d < 0 for d in shape):
                    raise ValueError(f"{name} has a dynamic shape")
                buffer = torch.empty(shape, device=self.device,
                                     dtype=_DTYPES[self.engine.get_tensor_dtype(name)])
                mode = self.engine.get_tensor_mode(name)
                table = self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs
                table[name] = buffer
                self.context.set_tensor_address(name, buffer.data_ptr())

    def __call__(self, **tensors):
        if set(tensors) != set(self.inputs):
            raise KeyError(f"expected inputs {sorted(self.inputs)}")
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        try:
            with torch.cuda.stream(self.stream):
                for name, value in tensors.items():
                    self.inputs[name].copy_(value)
                if not self.context.execute_async_v3(self.stream.cuda_stream):
                    raise RuntimeError("enqueue failed")
                results = {name: out.clone() for name, out in self.outputs.items()}
        finally:
            caller.wait_stream(self.stream)
        for result in results.values():
            result.record_stream(caller)
        return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    runner = EngineRunner(args.engine)
    generator = torch.Generator(device=runner.device).manual_seed(0)
    for round_ in range(args.rounds):
        feed = {name: torch.rand(b.shape, device=runner.device,
                                 generator=generator).to(b.dtype)
                for name, b in runner.inputs.items()}
        for name, value in runner(**feed).items():
            print(round_, name, value.float().mean().item())


if __name__ == "__main__":
    main()
