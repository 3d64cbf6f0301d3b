"""Partitioned model: a TensorRT subgraph between two groups of torch operators."""
from __future__ import annotations

import threading

import tensorrt as trt
import torch
from torch import nn


class TrtSubgraph:
    def __init__(self, engine: trt.ICudaEngine, device: torch.device, dim: int) -> None:
        self.context = engine.create_execution_context()
        self.device = device
        self.dim = dim
        self.stream = torch.cuda.Stream(device)
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.inputs = [n for n in names if engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty(x.shape[0], self.dim, device=self.device)
        ready = torch.cuda.current_stream(self.device).record_event()
        self.stream.wait_event(ready)
        self.context.set_input_shape(self.inputs[0], tuple(x.shape))
        self.context.set_tensor_address(self.inputs[0], x.data_ptr())
        self.context.set_tensor_address(self.outputs[0], out.data_ptr())
        x.record_stream(self.stream)
        out.record_stream(self.stream)
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("TensorRT EP execution context enqueue failed")
        return out


class PartitionedModel:
    """Session-wide weights, one TensorRT context per calling thread."""

    def __init__(self, engine_path: str, device: torch.device, dim: int, classes: int) -> None:
        self.device = device
        self.dim = dim
        runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(engine_path, "rb") as f:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.embed = nn.EmbeddingBag(50_000, dim).to(device).eval()
        self.head = nn.Linear(dim, classes).to(device).eval()
        self.local = threading.local()
        torch.cuda.synchronize(device)

    def _subgraph(self) -> TrtSubgraph:
        if not hasattr(self.local, "subgraph"):
            self.local.subgraph = TrtSubgraph(self.engine, self.device, self.dim)
        return self.local.subgraph

    @torch.inference_mode()
    def run(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.to(self.device)
        x = self.embed(ids)
        hidden = self._subgraph().compute(x)
        scores = self.head(torch.nn.functional.layer_norm(hidden, (self.dim,)))
        return scores.softmax(dim=-1).cpu()


class Client(threading.Thread):
    def __init__(self, model: PartitionedModel, requests: int, seed: int) -> None:
        super().__init__()
        self.model = model
        self.requests = requests
        self.generator = torch.Generator().manual_seed(seed)
        self.results: list[torch.Tensor] = []

    def run(self) -> None:
        torch.cuda.set_device(self.model.device)
        for _ in range(self.requests):
            ids = torch.randint(0, 50_000, (64, 32), generator=self.generator)
            self.results.append(self.model.run(ids))


def main() -> None:
    device = torch.device("cuda", 0)
    model = PartitionedModel("encoder.engine", device, dim=768, classes=10)
    clients = [Client(model, requests=100, seed=i) for i in range(4)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    print(sum(float(r.max()) for c in clients for r in c.results))


if __name__ == "__main__":
    main()
