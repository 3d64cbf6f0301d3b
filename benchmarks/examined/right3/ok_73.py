"""TensorRT execution replayed as a CUDA graph from PyTorch."""
from pathlib import Path

import tensorrt as trt
import torch


class GraphedEngine:
    def __init__(self, plan: Path, device: torch.device):
        self.device = device
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self.runtime.deserialize_cuda_engine(plan.read_bytes())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(device)
        self.inputs: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            buf = torch.zeros(tuple(self.engine.get_tensor_shape(name)), device=device)
            mode = self.engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs)[name] = buf
            self.context.set_tensor_address(name, buf.data_ptr())
        self.graph = self._capture()

    def _enqueue(self) -> None:
        if not self.context.execute_async_v3(torch.cuda.current_stream(self.device).cuda_stream):
            raise RuntimeError("enqueue failed")

    def _capture(self) -> torch.cuda.CUDAGraph:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self._enqueue()
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._enqueue()
        return graph

    def __call__(self, **feeds: torch.Tensor) -> dict[str, torch.Tensor]:
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            for name, value in feeds.items():
                self.inputs[name].copy_(value)
            self.graph.replay()
            results = {name: buf.clone() for name, buf in self.outputs.items()}
        caller.wait_stream(self.stream)
        for value in results.values():
            value.record_stream(caller)
        return results


@torch.inference_mode()
def main(plan: str = "unet.plan", steps: int = 20):
    device = torch.device("cuda", 0)
    unet = GraphedEngine(Path(plan), device)
    x = torch.randn(1, 4, 64, 64, device=device)
    for t in range(steps, 0, -1):
        noise = unet(sample=x, timestep=torch.full((1,), float(t), device=device))["noise"]
        x = x - noise / steps
    print(x.std().item())


if __name__ == "__main__":
    main()
