"""Three frames in flight through a TensorRT engine."""
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable, Iterator, Optional

import tensorrt as trt
import torch


@dataclass
class FrameSlot:
    context: trt.IExecutionContext
    host_in: torch.Tensor
    dev_in: torch.Tensor
    dev_out: torch.Tensor
    host_out: torch.Tensor
    uploaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    inferred: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    downloaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    frame_id: Optional[int] = None


class AsyncTRTEngine:
    def __init__(self, plan: Path, in_shape: tuple, out_shape: tuple, depth: int = 3):
        logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan.read_bytes())
        self.h2d, self.run, self.d2h = (torch.cuda.Stream() for _ in range(3))
        self.slots = [self._make_slot(in_shape, out_shape) for _ in range(depth)]
        torch.cuda.synchronize()

    def _make_slot(self, in_shape, out_shape) -> FrameSlot:
        slot = FrameSlot(
            context=self.engine.create_execution_context(),
            host_in=torch.empty(in_shape, pin_memory=True),
            dev_in=torch.zeros(in_shape, device="cuda"),
            dev_out=torch.zeros(out_shape, device="cuda"),
            host_out=torch.empty(out_shape, pin_memory=True),
        )
        slot.context.set_tensor_address("frames", slot.dev_in.data_ptr())
        slot.context.set_tensor_address("embeddings", slot.dev_out.data_ptr())
        return slot

    def _enqueue(self, slot: FrameSlot, frame_id: int, frame: torch.Tensor) -> None:
        slot.frame_id = frame_id
        slot.host_in.copy_(frame)
        with torch.cuda.stream(self.h2d):
            slot.dev_in.copy_(slot.host_in, non_blocking=True)
            slot.uploaded.record()
        self.run.wait_event(slot.uploaded)
        slot.context.execute_async_v3(self.run.cuda_stream)
        slot.inferred.record(self.run)
        with torch.cuda.stream(self.d2h):
            self.d2h.wait_event(slot.inferred)
            slot.host_out.copy_(slot.dev_out, non_blocking=True)
            slot.downloaded.record()

    def _finish(self, slot: FrameSlot) -> tuple[int, torch.Tensor]:
        slot.downloaded.synchronize()
        frame_id, slot.frame_id = slot.frame_id, None
        return frame_id, slot.host_out.clone()

    def stream(self, frames: Iterable[torch.Tensor]) -> Iterator[tuple[int, torch.Tensor]]:
        n = 0
        for n, frame in enumerate(frames, start=1):
            slot = self.slots[(n - 1) % len(self.slots)]
            if slot.frame_id is not None:
                yield self._finish(slot)
            self._enqueue(slot, n - 1, frame)
        for k in range(len(self.slots)):
            slot = self.slots[(n + k) % len(self.slots)]
            if slot.frame_id is not None:
                yield self._finish(slot)


def main(plan: str = "embedder.plan"):
    engine = AsyncTRTEngine(Path(plan), (1, 3, 224, 224), (1, 512))
    video = (torch.rand(1, 3, 224, 224) for _ in range(90))
    for frame_id, emb in engine.stream(video):
        print(frame_id, emb.norm().item())


if __name__ == "__main__":
    main()
