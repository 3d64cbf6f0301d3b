"""A small operator graph for medical imaging; each operator works on a stream of its own."""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F


@dataclass
class Message:
    tensor: torch.Tensor
    ready: Optional[torch.cuda.Event] = None


class Operator:
    def __init__(self, name):
        self.name = name
        self.stream = torch.cuda.Stream()
        self.count = 0

    def receive(self, message):
        if message.ready is not None:
            self.stream.wait_event(message.ready)
        message.tensor.record_stream(self.stream)
        return message.tensor

    def emit(self, tensor):
        return Message(tensor, self.stream.record_event())

    def compute(self, message):
        raise NotImplementedError

    def __call__(self, message):
        self.count += 1
        with torch.cuda.stream(self.stream):
            return self.compute(message)


class VolumeSource(Operator):
    def __init__(self, shape):
        super().__init__("source")
        self.shape = shape

    def compute(self, message):
        volume = torch.rand(self.shape, device="cuda")
        for _ in range(4):
            volume = F.avg_pool3d(volume, 3, stride=1, padding=1)
        return self.emit(volume)


class Colorize(Operator):
    def __init__(self):
        super().__init__("colorize")
        self.lut = torch.rand(256, 4, device="cuda")
        torch.cuda.synchronize()

    def compute(self, message):
        volume = self.receive(message)
        index = (volume.clamp(0, 1) * 255).long()
        return self.emit(self.lut[index])


class BufferPassthrough(Operator):
    """Forwards the colour buffer of the viewer; keeps the last handle for reuse by the UI."""

    def __init__(self):
        super().__init__("passthrough")
        self.last = None

    def compute(self, message):
        self.last = message.tensor
        return Message(message.tensor)


class Projection(Operator):
    def __init__(self):
        super().__init__("projection")

    def compute(self, message):
        colors = self.receive(message)
        alpha = colors[..., 3:]
        image = (colors[..., :3] * alpha).amax(dim=2)
        return self.emit(image)


class Application:
    def __init__(self):
        self.chain = [VolumeSource((1, 1, 128, 256, 256)), Colorize(), BufferPassthrough(), Projection()]

    def run(self, frames):
        checksum = torch.zeros((), device="cuda")
        for _ in range(frames):
            message = None
            for op in self.chain:
                message = op(message)
            torch.cuda.current_stream().wait_event(message.ready)
            message.tensor.record_stream(torch.cuda.current_stream())
            checksum += message.tensor.mean()
        return checksum.item()


if __name__ == "__main__":
    print(Application().run(20))
