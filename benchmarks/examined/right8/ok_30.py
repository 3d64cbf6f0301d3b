"""TensorRT inside a torch model: engine runs on the caller's current stream."""
import tensorrt as trt
import torch
from torch import nn

DTYPES = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32}


class TRTModule(nn.Module):
    def __init__(self, engine, input_names, output_names):
        super().__init__()
        self.engine = engine
        self.context = engine.create_execution_context()
        self.input_names, self.output_names = input_names, output_names
        self._last = None

    def _order_context(self, stream):
        """The context's scratch memory is one; calls from several streams queue up."""
        if self._last is not None:
            stream.wait_event(self._last)

    def forward(self, *inputs):
        stream = torch.cuda.current_stream()
        self._order_context(stream)
        keep = []
        for name, value in zip(self.input_names, inputs):
            value = value.contiguous()
            self.context.set_input_shape(name, tuple(value.shape))
            self.context.set_tensor_address(name, value.data_ptr())
            keep.append(value)
        outputs = []
        for name in self.output_names:
            dtype = DTYPES[self.engine.get_tensor_dtype(name)]
            out = torch.empty(tuple(self.context.get_tensor_shape(name)), dtype=dtype, device="cuda")
            self.context.set_tensor_address(name, out.data_ptr())
            outputs.append(out)
        self.context.execute_async_v3(stream.cuda_stream)
        self._last = stream.record_event()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class Hybrid(nn.Module):
    def __init__(self, trt_backbone, classes):
        super().__init__()
        self.backbone = trt_backbone
        self.head = nn.Linear(2048, classes)

    def forward(self, x):
        return self.head(self.backbone(x).flatten(1))


def load(path):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    return TRTModule(engine, ["input"], ["features"])


@torch.inference_mode()
def main():
    torch.cuda.set_stream(torch.cuda.Stream())
    model = Hybrid(load("backbone.plan"), 1000).cuda().eval()
    for _ in range(3):
        x = torch.randn(8, 3, 224, 224, device="cuda")
        print(model(x).argmax(1).tolist())


if __name__ == "__main__":
    main()
