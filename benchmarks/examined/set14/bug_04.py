from dataclasses import dataclass

import torch


@dataclass
class Surface:
    nv12: torch.Tensor
    pts: float
    stream: torch.cuda.Stream


class PacketDecoder:
    """Uploads raw NV12 packets to the device on a private stream."""

    def __init__(self, width, height, device="cuda"):
        self.width = width
        self.height = height
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def decode(self, packet):
        payload = torch.frombuffer(bytearray(packet.data), dtype=torch.uint8)
        payload = payload.view(self.height * 3 // 2, self.width).pin_memory()
        with torch.cuda.stream(self.stream):
            nv12 = payload.to(self.device, non_blocking=True)
            if packet.full_range:
                nv12 = nv12.float().mul_(219.0 / 255.0).add_(16.0).round_().to(torch.uint8)
        return Surface(nv12, packet.pts, self.stream)


class ColorConverter:
    def __init__(self, width, height, device="cuda"):
        self.height = height
        self.width = width
        self.matrix = torch.tensor(
            [[1.164, 0.0, 1.596], [1.164, -0.392, -0.813], [1.164, 2.017, 0.0]], device=device
        )
        self.offset = torch.tensor([16.0, 128.0, 128.0], device=device)

    def convert(self, surface):
        current = torch.cuda.current_stream(surface.nv12.device)
        surface.nv12.record_stream(current)
        luma = surface.nv12[: self.height].float()
        chroma = surface.nv12[self.height :].view(self.height // 2, self.width // 2, 2).float()
        chroma = chroma.repeat_interleave(2, 0).repeat_interleave(2, 1)
        yuv = torch.cat((luma.unsqueeze(-1), chroma), dim=-1) - self.offset
        rgb = (yuv @ self.matrix.t()).clamp_(0, 255).to(torch.uint8)
        return rgb.permute(2, 0, 1)


class VideoDecoder:
    def __init__(self, demuxer, width, height, device="cuda"):
        self.demuxer = demuxer
        self.decoder = PacketDecoder(width, height, device)
        self.converter = ColorConverter(width, height, device)

    def __iter__(self):
        for packet in self.demuxer:
            surface = self.decoder.decode(packet)
            yield surface.pts, self.converter.convert(surface)

    def get_frames(self, count):
        frames, pts = [], []
        for t, frame in self:
            frames.append(frame)
            pts.append(t)
            if len(frames) == count:
                break
        return torch.stack(frames), pts
