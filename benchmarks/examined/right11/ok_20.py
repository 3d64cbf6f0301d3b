from __future__ import annotations

import itertools
from dataclasses import dataclass

import tensorrt as trt
import torch


@dataclass
class Lane:
    context: trt.IExecutionContext
    images: torch.Tensor
    logits: torch.Tensor
    stream: torch.cuda.Stream


@dataclass
class Pending:
    value: torch.Tensor
    event: torch.cuda.Event

    def get(self) -> torch.Tensor:
        stream = torch.cuda.current_stream()
        stream.wait_event(self.event)
        self.value.record_stream(stream)
        return self.value


class EnginePool:
    """Several execution contexts of one engine, each on a stream of its own."""

    def __init__(self, path: str, batch: int, lanes: int = 2) -> None:
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.lanes = [self._lane(batch) for _ in range(lanes)]
        self._next = itertools.cycle(self.lanes)
        torch.cuda.synchronize()

    def _lane(self, batch: int) -> Lane:
        context = self.engine.create_execution_context()
        images = torch.zeros(batch, 3, 224, 224, device="cuda")
        context.set_input_shape("images", tuple(images.shape))
        logits = torch.zeros(tuple(context.get_tensor_shape("logits")), device="cuda")
        context.set_tensor_address("images", images.data_ptr())
        context.set_tensor_address("logits", logits.data_ptr())
        return Lane(context, images, logits, torch.cuda.Stream())

    def submit(self, x: torch.Tensor) -> Pending:
        lane = next(self._next)
        lane.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane.stream):
            lane.images.copy_(x)
            x.record_stream(lane.stream)
            if not lane.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
                raise RuntimeError("enqueue failed")
            value = lane.logits.clone()
            event = lane.stream.record_event()
        return Pending(value, event)


@torch.inference_mode()
def classify(pool: EnginePool, batches: list[torch.Tensor]) -> list[int]:
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)
    pending = []
    for raw in batches:
        x = (raw.cuda().float().div_(255.0) - mean) / std
        pending.append(pool.submit(x))
    labels: list[int] = []
    for p in pending:
        labels += p.get().argmax(dim=1).tolist()
    return labels


if __name__ == "__main__":
    frames = [torch.randint(0, 256, (8, 3, 224, 224), dtype=torch.uint8) for _ in range(16)]
    print(classify(EnginePool("resnet50.engine", 8), frames)[:10])
