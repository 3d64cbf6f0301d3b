import tensorrt as trt
import torch

_DTYPES = {
    trt.float32: torch.float32, trt.float16: torch.float16,
    trt.int32: torch.int32, trt.bool: torch.bool,
}


class TRTModule(torch.nn.Module):
    """Runs an engine on a private stream and hands the outputs to the caller's."""

    def __init__(self, path):
        super().__init__()
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = self.engine.get_tensor_mode
        self.inputs = [n for n in names if mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if mode(n) == trt.TensorIOMode.OUTPUT]
        self.stream = torch.cuda.Stream()

    def _bind(self, tensors):
        for name, t in tensors.items():
            self.context.set_tensor_address(name, t.data_ptr())

    def forward(self, *args):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            feeds = {n: a.contiguous() for n, a in zip(self.inputs, args)}
            for n, t in feeds.items():
                self.context.set_input_shape(n, tuple(t.shape))
            results = {
                n: torch.empty(tuple(self.context.get_tensor_shape(n)), device="cuda",
                               dtype=_DTYPES[self.engine.get_tensor_dtype(n)])
                for n in self.outputs}
            self._bind(feeds)
            self._bind(results)
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError("enqueue failed")
        caller.wait_stream(self.stream)
        for t in args:
            t.record_stream(self.stream)
        for t in results.values():
            t.record_stream(caller)
        return tuple(results[n] for n in self.outputs)


def main():
    model = TRTModule("encoder.plan")
    total = torch.zeros((), device="cuda")
    for k in range(20):
        x = torch.randn(8, 3, 224, 224, device="cuda")
        (features,) = model(x)
        total += features.float().abs().mean()
    print(total.item())


if __name__ == "__main__":
    main()
