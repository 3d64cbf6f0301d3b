"""Block-based video decoding: upload, colour conversion and resize on one stream, handed over by events."""
import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn.functional as F


class CudaEvent:
    def __init__(self):
        self._event = torch.cuda.Event()

    def record(self, stream):
        self._event.record(stream)
        return self

    def make_wait(self, stream):
        stream.wait_event(self._event)


@dataclass
class GpuFrame:
    data: torch.Tensor
    pts: float
    ready: CudaEvent


class FrameConverter:
    def __init__(self, device, size):
        self.device = torch.device(device)
        self.size = size
        self.stream = torch.cuda.Stream(self.device)
        self.coeff = torch.tensor(
            [[1.0, 0.0, 1.402], [1.0, -0.344, -0.714], [1.0, 1.772, 0.0]], device=self.device
        )
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def convert(self, y, u, v, pts):
        with torch.cuda.stream(self.stream):
            planes = [p.pin_memory().to(self.device, non_blocking=True).float() for p in (y, u, v)]
            planes[1:] = [
                F.interpolate((p - 128)[None, None], scale_factor=2.0)[0, 0] for p in planes[1:]
            ]
            yuv = torch.stack(planes)
            rgb = torch.einsum("ij,jhw->ihw", self.coeff, yuv).clamp_(0, 255)
            rgb = F.interpolate(rgb[None], size=self.size, mode="bilinear")[0]
            ready = CudaEvent().record(self.stream)
        return GpuFrame(rgb, pts, ready)


class Pipeline:
    def __init__(self, reader, converter, depth=8):
        self.reader = reader
        self.converter = converter
        self.queue = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._decode, daemon=True)

    @torch.inference_mode()
    def _decode(self):
        for y, u, v, pts in self.reader:
            self.queue.put(self.converter.convert(y, u, v, pts))
        self.queue.put(None)

    def __iter__(self):
        self.thread.start()
        consumer = torch.cuda.current_stream(self.converter.device)
        while (frame := self.queue.get()) is not None:
            frame.ready.make_wait(consumer)
            frame.data.record_stream(consumer)
            yield frame
        self.thread.join()


@torch.inference_mode()
def embed(reader, model, device="cuda:0", batch=8):
    pipeline = Pipeline(reader, FrameConverter(device, (224, 224)))
    pending, out = [], []
    for frame in pipeline:
        pending.append(frame.data / 255.0)
        if len(pending) == batch:
            out.append(model(torch.stack(pending)))
            pending.clear()
    if pending:
        out.append(model(torch.stack(pending)))
    return torch.cat(out).cpu()
