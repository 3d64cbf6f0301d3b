"""TensorRT engine called from PyTorch code, on a private stream."""
from pathlib import Path

import tensorrt as trt
import torch

_DTYPES = {
    trt.float32: torch.float32,
    trt.float16: torch.float16,
    trt.int32: torch.int32,
    trt.int64: torch.int64,
    trt.int8: torch.int8,
    trt.bool: torch.bool,
}


class TRTModule(torch.nn.Module):
    def __init__(self, plan: Path, device: torch.device):
        super().__init__()
        self.device = device
        self.logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(self.logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan.read_bytes())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.outputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.OUTPUT]

    def _bind_inputs(self, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        bound = []
        for name, value in feeds.items():
            value = value.contiguous()
            self.context.set_input_shape(name, tuple(value.shape))
            self.context.set_tensor_address(name, value.data_ptr())
            bound.append(value)
        return bound

    def _bind_outputs(self) -> dict[str, torch.Tensor]:
        bound = {}
        for name in self.outputs:
            shape = tuple(self.context.get_tensor_shape(name))
            dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
            bound[name] = torch.empty(shape, dtype=dtype, device=self.device)
            self.context.set_tensor_address(name, bound[name].data_ptr())
        return bound

    def forward(self, **feeds: torch.Tensor) -> dict[str, torch.Tensor]:
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            inputs = self._bind_inputs(feeds)
            results = self._bind_outputs()
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError("enqueue failed")
            del inputs
        caller.wait_stream(self.stream)
        for value in results.values():
            value.record_stream(caller)
        return results


@torch.inference_mode()
def main(plan: str = "encoder.plan"):
    device = torch.device("cuda", 0)
    encoder = TRTModule(Path(plan), device)
    head = torch.nn.Linear(768, 2).to(device)
    for _ in range(50):
        ids = torch.randint(0, 30_000, (8, 128), dtype=torch.int32, device=device)
        out = encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
        logits = head(out["last_hidden_state"][:, 0].float())
    print(logits.argmax(-1).tolist())


if __name__ == "__main__":
    main()
