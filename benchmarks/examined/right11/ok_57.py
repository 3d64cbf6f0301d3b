from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Packet:
    index: int
    fields: dict[str, torch.Tensor]
    fences: list[torch.cuda.Event] = field(default_factory=list)


class Stage(ABC):
    """A pipeline step; subclasses only say what is computed."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()

    def _enter(self, packet: Packet) -> None:
        for fence in packet.fences:
            self.stream.wait_event(fence)
        packet.fences.clear()
        for t in packet.fields.values():
            if t.is_cuda:
                t.record_stream(self.stream)

    def push(self, packet: Packet) -> Packet:
        self._enter(packet)
        with torch.cuda.stream(self.stream):
            packet.fields.update(self.process(packet.fields))
            packet.fences.append(self.stream.record_event())
        return packet

    @abstractmethod
    def process(self, fields: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]: ...


class Upload(Stage):
    def process(self, fields):
        return {k: v.to("cuda", non_blocking=True) for k, v in fields.items()}


class Blur(Stage):
    def __init__(self, width: int) -> None:
        super().__init__()
        taps = torch.hann_window(width, periodic=False)
        with torch.cuda.stream(self.stream):
            self.kernel = (taps / taps.sum()).view(1, 1, 1, -1).cuda()

    def process(self, fields):
        image = fields["image"]
        pad = self.kernel.size(-1) // 2
        rows = F.conv2d(image, self.kernel, padding=(0, pad))
        return {"smooth": F.conv2d(rows, self.kernel.transpose(2, 3), padding=(pad, 0))}


class Edges(Stage):
    def process(self, fields):
        s = fields["smooth"]
        gx = s[..., :, 1:] - s[..., :, :-1]
        gy = s[..., 1:, :] - s[..., :-1, :]
        return {"edge": gx.abs().mean(dim=(1, 2, 3)) + gy.abs().mean(dim=(1, 2, 3))}


class Download(Stage):
    def process(self, fields):
        return {"host": fields["edge"].to("cpu", non_blocking=True)}


class Pipeline:
    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def __call__(self, images) -> list[float]:
        window: list[Packet] = []
        values: list[float] = []
        for index, image in enumerate(images):
            packet = Packet(index, {"image": image})
            for stage in self.stages:
                packet = stage.push(packet)
            window.append(packet)
            if len(window) > 3:
                values += self._collect(window.pop(0))
        for packet in window:
            values += self._collect(packet)
        return values

    @staticmethod
    def _collect(packet: Packet) -> list[float]:
        for fence in packet.fences:
            fence.synchronize()
        return packet.fields["host"].tolist()


def main() -> None:
    images = (torch.rand(4, 1, 512, 512).pin_memory() for _ in range(20))
    print(sum(Pipeline(Upload(), Blur(9), Edges(), Download())(images)))


if __name__ == "__main__":
    main()
