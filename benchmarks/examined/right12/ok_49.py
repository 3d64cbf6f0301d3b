import argparse

import tensorrt as trt
import torch

DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT8: torch.int8,
    trt.DataType.BOOL: torch.bool,
}


class EngineRunner:
    """Runs a fixed-shape TensorRT engine on its own stream for callers on any stream."""

    def __init__(self, path, device=0):
        self.device = torch.device("cuda", device)
        torch.cuda.set_device(self.device)
        self.logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(self.logger)
        with open(path, "rb") as handle:
            self.engine = self.runtime.deserialize_cuda_engine(handle.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(self.device)
        self.inputs = {}
        self.outputs = {}
        with torch.cuda.stream(self.stream):
            for index in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(index)
                shape = tuple(self.engine.get_tensor_shape(name))
                if any(extent < 0 for extent in shape):
                    raise ValueError(f"{name} has a dynamic shape")
                buffer = torch.zeros(shape, dtype=DTYPES[self.engine.get_tensor_dtype(name)],
                                     device=self.device)
                is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
                (self.inputs if is_input else self.outputs)[name] = buffer
                self.context.set_tensor_address(name, buffer.data_ptr())

    def __call__(self, **feeds):
        if set(feeds) != set(self.inputs):
            raise KeyError(f"expected {sorted(self.inputs)}")
        for name, value in feeds.items():
            if value.shape != self.inputs[name].shape:
                raise ValueError(f"{name}: {tuple(value.shape)}")
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_event(caller.record_event())
        results = {}
        try:
            with torch.cuda.stream(self.stream):
                for name, value in feeds.items():
                    self.inputs[name].copy_(value)
                if not self.context.execute_async_v3(self.stream.cuda_stream):
                    raise RuntimeError("inference failed")
                for name, value in self.outputs.items():
                    results[name] = value.clone()
        finally:
            caller.wait_stream(self.stream)
        for value in results.values():
            value.record_stream(caller)
        return results

    def warm_up(self, count=3):
        zeros = {name: torch.zeros_like(value) for name, value in self.inputs.items()}
        for _ in range(count):
            self(**zeros)


def random_feeds(runner, pinned):
    feeds = {}
    for name, buffer in runner.inputs.items():
        if buffer.is_floating_point():
            value = torch.randn(buffer.shape).to(buffer.dtype)
        else:
            value = torch.zeros(buffer.shape, dtype=buffer.dtype)
        feeds[name] = value.pin_memory() if pinned else value.to(runner.device)
    return feeds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    runner = EngineRunner(args.engine)
    runner.warm_up()
    totals = {name: torch.zeros((), device=runner.device) for name in runner.outputs}
    for step in range(args.rounds):
        outputs = runner(**random_feeds(runner, pinned=step % 2 == 0))
        for name, value in outputs.items():
            totals[name] += value.float().mean()
    print({name: (value / args.rounds).item() for name, value in totals.items()})


if __name__ == "__main__":
    main()
