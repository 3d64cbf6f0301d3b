from dataclasses import dataclass
from typing import Iterator, Optional

import torch

_BT709 = (
    (1.0, 0.0, 1.5748),
    (1.0, -0.1873, -0.4681),
    (1.0, 1.8556, 0.0),
)


@dataclass
class RawFrame:
    luma: torch.Tensor
    chroma: torch.Tensor
    pts: float
    produced: torch.cuda.Event

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        self.luma.record_stream(stream)
        self.chroma.record_stream(stream)


class PacketDecoder:
    def __init__(self, source, height: int, width: int, device: str = "cuda:0"):
        self.source = source
        self.shape = (height, width)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def __iter__(self) -> Iterator[RawFrame]:
        h, w = self.shape
        for pts, packed in self.source:
            with torch.cuda.stream(self.stream):
                nv12 = packed.to(self.device)
                luma = nv12[: h * w].view(h, w).float()
                chroma = nv12[h * w :].view(h // 2, w // 2, 2).float() - 128.0
                produced = self.stream.record_event()
            yield RawFrame(luma, chroma, pts, produced)


class ColorConverter:
    def __init__(self, device: str = "cuda:0", stream: Optional[torch.cuda.Stream] = None):
        self.stream = stream or torch.cuda.Stream(device)
        self.matrix = torch.tensor(_BT709, device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def convert(self, frame: RawFrame) -> torch.Tensor:
        self.stream.wait_event(frame.produced)
        with torch.cuda.stream(self.stream):
            up = frame.chroma.repeat_interleave(2, 0).repeat_interleave(2, 1)
            yuv = torch.cat((frame.luma.unsqueeze(-1), up), dim=-1)
            rgb = (yuv @ self.matrix.t()).clamp_(0, 255).to(torch.uint8)
        frame.record_stream(self.stream)
        return rgb


def decode_rgb(source, height: int, width: int, every: int = 1) -> torch.Tensor:
    decoder = PacketDecoder(source, height, width)
    converter = ColorConverter()
    frames = []
    for i, raw in enumerate(decoder):
        if i % every == 0:
            frames.append(converter.convert(raw))
    current = torch.cuda.current_stream()
    current.wait_stream(converter.stream)
    for frame in frames:
        frame.record_stream(current)
    return torch.stack(frames)
