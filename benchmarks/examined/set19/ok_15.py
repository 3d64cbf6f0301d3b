"""Runtime module around a TensorRT engine that honours the caller's stream."""
import contextlib

import tensorrt as trt
import torch

_TORCH = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
}


class TRTModule(torch.nn.Module):
    def __init__(self, serialized):
        super().__init__()
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self.runtime.deserialize_cuda_engine(serialized)
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        is_input = {n: self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT for n in names}
        self.input_names = [n for n in names if is_input[n]]
        self.output_names = [n for n in names if not is_input[n]]
        self._engine_stream = None
        self._last_done = None

    def _select_stream(self, device):
        """The default stream cannot be captured or partitioned: only then an own stream is used."""
        caller = torch.cuda.current_stream(device)
        if caller != torch.cuda.default_stream(device):
            return caller, caller
        if self._engine_stream is None:
            self._engine_stream = torch.cuda.Stream(device=device)
        return caller, self._engine_stream

    def _bind_inputs(self, inputs):
        bound = []
        for name, value in zip(self.input_names, inputs):
            value = value.to(_TORCH[self.engine.get_tensor_dtype(name)]).contiguous()
            self.context.set_input_shape(name, tuple(value.shape))
            self.context.set_tensor_address(name, value.data_ptr())
            bound.append(value)
        return bound

    def _make_outputs(self, device):
        outputs = []
        for name in self.output_names:
            out = torch.empty(
                tuple(self.context.get_tensor_shape(name)),
                dtype=_TORCH[self.engine.get_tensor_dtype(name)],
                device=device,
            )
            self.context.set_tensor_address(name, out.data_ptr())
            outputs.append(out)
        return outputs

    def forward(self, *inputs):
        device = inputs[0].device
        caller, engine_stream = self._select_stream(device)
        bound = self._bind_inputs(inputs)
        outputs = self._make_outputs(device)
        if engine_stream != caller:
            engine_stream.wait_stream(caller)
        if self._last_done is not None:
            engine_stream.wait_event(self._last_done)
        self.context.execute_async_v3(engine_stream.cuda_stream)
        self._last_done = engine_stream.record_event()
        if engine_stream != caller:
            caller.wait_stream(engine_stream)
        del bound
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


@contextlib.contextmanager
def on_stream(stream):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def main(plan_path):
    with open(plan_path, "rb") as f:
        module = TRTModule(f.read())
    x = torch.randn(8, 3, 224, 224, device="cuda")
    eager = module(x)
    side = torch.cuda.Stream()
    with on_stream(side):
        y = x * 0.5
        half = module(y)
    half.record_stream(torch.cuda.current_stream())
    return (eager - half).abs().max().item()
