import threading
from queue import Queue
from typing import Optional

import torch


class DeviceFrame:
    """A frame that remembers the stream that writes it."""

    def __init__(self, tensor: torch.Tensor, pts: float):
        self._tensor = tensor
        self.pts = pts
        self._filled = torch.cuda.Event()
        self._filled.record(torch.cuda.current_stream(tensor.device))

    def as_tensor(self, stream: Optional[torch.cuda.Stream] = None) -> torch.Tensor:
        stream = stream or torch.cuda.current_stream(self._tensor.device)
        stream.wait_event(self._filled)
        self._tensor.record_stream(stream)
        return self._tensor


class PacketDecoder:
    def __init__(self, packets, height, width, device):
        self.packets = packets
        self.shape = (3, height, width)
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def __iter__(self):
        for payload, pts in self.packets:
            with torch.cuda.stream(self.stream):
                planes = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
                planes = planes.to(self.device, non_blocking=True).view(self.shape).float()
                yield_frame = DeviceFrame(planes.sub_(128.0), pts)
            yield yield_frame


class ColorConverter:
    def __init__(self, device):
        self.matrix = torch.tensor(
            [[1.164, 0.0, 1.793], [1.164, -0.213, -0.533], [1.164, 2.112, 0.0]], device=device
        )

    def convert(self, frame: DeviceFrame) -> DeviceFrame:
        ycc = frame.as_tensor()
        rgb = torch.einsum("ij,jhw->ihw", self.matrix, ycc).add_(128.0).clamp_(0, 255)
        return DeviceFrame(rgb.to(torch.uint8), frame.pts)


def decode_in_background(decoder, converter, depth=4):
    frames: Queue = Queue(maxsize=depth)

    def work():
        stream = torch.cuda.Stream(decoder.device)
        stream.wait_stream(torch.cuda.default_stream(decoder.device))
        with torch.cuda.stream(stream):
            for frame in decoder:
                frames.put(converter.convert(frame))
        frames.put(None)

    threading.Thread(target=work, daemon=True).start()
    while (frame := frames.get()) is not None:
        yield frame


def mean_colours(packets, height, width, device="cuda"):
    converter = ColorConverter(device)
    decoder = PacketDecoder(packets, height, width, device)
    out = [f.as_tensor().float().mean(dim=(1, 2)) for f in decode_in_background(decoder, converter)]
    return torch.stack(out).cpu()
