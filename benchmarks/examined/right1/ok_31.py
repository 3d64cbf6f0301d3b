"""TensorRT engine behind a torch-facing callable with its own stream."""
import sys

import tensorrt as trt
import torch

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
}


class EngineRunner:
    def __init__(self, plan_path):
        logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(logger)
        with open(plan_path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = self.engine.get_tensor_mode
        self.input_names = [n for n in names if mode(n) == trt.TensorIOMode.INPUT]
        self.output_names = [n for n in names if mode(n) == trt.TensorIOMode.OUTPUT]

    def _bind_inputs(self, inputs):
        bound = {}
        for name in self.input_names:
            source = inputs[name]
            source.record_stream(self.stream)
            t = source.to(_DTYPES[self.engine.get_tensor_dtype(name)]).contiguous()
            self.context.set_input_shape(name, tuple(t.shape))
            self.context.set_tensor_address(name, t.data_ptr())
            bound[name] = t
        return bound

    def _bind_outputs(self):
        outputs = {}
        for name in self.output_names:
            shape = tuple(self.context.get_tensor_shape(name))
            dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
            outputs[name] = torch.empty(shape, dtype=dtype, device="cuda")
            self.context.set_tensor_address(name, outputs[name].data_ptr())
        return outputs

    def __call__(self, **inputs):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            bound = self._bind_inputs(inputs)
            outputs = self._bind_outputs()
            if not self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
                raise RuntimeError("enqueue failed")
            del bound
        caller.wait_stream(self.stream)
        for t in outputs.values():
            t.record_stream(caller)
        return outputs


def letterbox(images, size):
    scale = size / max(images.shape[-2:])
    resized = torch.nn.functional.interpolate(images, scale_factor=scale, mode="bilinear")
    pad_h, pad_w = size - resized.shape[-2], size - resized.shape[-1]
    return torch.nn.functional.pad(resized, (0, pad_w, 0, pad_h), value=0.5)


def main(plan_path):
    runner = EngineRunner(plan_path)
    name = runner.output_names[0]
    hits = 0
    for _ in range(100):
        frames = torch.rand(1, 3, 720, 1280, device="cuda")
        boxes = runner(images=letterbox(frames, 640))[name]
        hits += int((boxes[..., 4] > 0.25).sum())
    print(hits)


if __name__ == "__main__":
    main(sys.argv[1])
