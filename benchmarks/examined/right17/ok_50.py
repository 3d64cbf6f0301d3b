"""TensorRT detector with two execution contexts and pinned outputs."""
import collections
from typing import Deque, Iterable, Iterator, List

import tensorrt as trt
import torch


class Context:
    def __init__(self, engine: "trt.ICudaEngine", device: torch.device):
        self.context = engine.create_execution_context()
        self.stream = torch.cuda.Stream(device=device)
        shape_in = tuple(engine.get_tensor_shape("images"))
        shape_out = tuple(engine.get_tensor_shape("boxes"))
        with torch.cuda.stream(self.stream):
            self.images = torch.zeros(shape_in, device=device)
            self.boxes = torch.zeros(shape_out, device=device)
        self.host = torch.zeros(shape_out, pin_memory=True)
        self.finished = torch.cuda.Event(blocking=True)
        self.rows = 0
        self.context.set_tensor_address("images", self.images.data_ptr())
        self.context.set_tensor_address("boxes", self.boxes.data_ptr())


class Detector:
    def __init__(self, plan: bytes, device: torch.device, contexts: int = 2):
        self.device = device
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.idle: List[Context] = [Context(self.engine, device) for _ in range(contexts)]
        self.active: Deque[Context] = collections.deque()

    @torch.no_grad()
    def submit(self, images: torch.Tensor) -> bool:
        """Starts a batch; returns False when every context is occupied."""
        if not self.idle:
            return False
        ctx = self.idle[-1]
        n = images.shape[0]
        if n > ctx.images.shape[0]:
            raise ValueError("batch too large")
        caller = torch.cuda.current_stream(self.device)
        ctx.stream.wait_stream(caller)
        if images.is_cuda:
            images.record_stream(ctx.stream)
        with torch.cuda.stream(ctx.stream):
            ctx.images[:n].copy_(images)
            if images.is_cuda:
                caller.wait_stream(ctx.stream)
            if not ctx.context.execute_async_v3(ctx.stream.cuda_stream):
                raise RuntimeError("enqueue failed")
            ctx.host.copy_(ctx.boxes, non_blocking=True)
            ctx.finished.record(ctx.stream)
        ctx.rows = n
        self.active.append(self.idle.pop())
        return True

    def collect(self) -> torch.Tensor:
        ctx = self.active.popleft()
        ctx.finished.synchronize()
        result = ctx.host[: ctx.rows].clone()
        self.idle.append(ctx)
        return result

    def close(self) -> None:
        for ctx in (*self.active, *self.idle):
            ctx.stream.synchronize()
        self.active.clear()
        self.idle.clear()


def detect(detector: Detector, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    for batch in batches:
        while not detector.submit(batch):
            yield detector.collect()
    while detector.active:
        yield detector.collect()
