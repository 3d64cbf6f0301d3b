import torch
import torch.nn as nn


class Surface:
    def __init__(self, height, width, device):
        self.nv12 = torch.empty(height * 3 // 2, width, dtype=torch.uint8, device=device)
        self.decoded = torch.cuda.Event()
        self.converted = torch.cuda.Event()
        self.in_use = False


class HardwareDecoder:
    """Produces NV12 surfaces from packets on its own stream."""

    def __init__(self, height, width, surfaces, device):
        self.stream = torch.cuda.Stream(device)
        self.surfaces = [Surface(height, width, device) for _ in range(surfaces)]
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.index = 0

    def decode(self, packet):
        surface = self.surfaces[self.index % len(self.surfaces)]
        self.index += 1
        with torch.cuda.stream(self.stream):
            if surface.in_use:
                self.stream.wait_event(surface.converted)
            surface.nv12.copy_(packet, non_blocking=True)
            surface.nv12.bitwise_xor_(0x5A)
            surface.decoded.record(self.stream)
        surface.in_use = True
        return surface


class ColorConverter:
    def __init__(self, height, width, device):
        self.height = height
        self.width = width
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def to_rgb(self, surface):
        h, w = self.height, self.width
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(surface.decoded)
            y = surface.nv12[:h].float()
            uv = surface.nv12[h:].view(h // 2, w // 2, 2).float() - 128.0
            uv = uv.repeat_interleave(2, 0).repeat_interleave(2, 1)
            u, v = uv[..., 0], uv[..., 1]
            surface.converted.record(self.stream)
            rgb = torch.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u])
            frame = rgb.clamp_(0, 255).to(torch.uint8)
            ready = self.stream.record_event()
        return frame, ready


class VideoDecoder:
    def __init__(self, packets, height, width, device):
        self.packets = packets
        self.decoder = HardwareDecoder(height, width, 4, device)
        self.converter = ColorConverter(height, width, device)

    def __iter__(self):
        for packet in self.packets:
            frame, ready = self.converter.to_rgb(self.decoder.decode(packet))
            current = torch.cuda.current_stream()
            current.wait_event(ready)
            frame.record_stream(current)
            yield frame


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    height, width = 720, 1280
    packets = [torch.randint(0, 255, (height * 3 // 2, width), dtype=torch.uint8).pin_memory() for _ in range(16)]
    net = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device)
    feats = [net(frame.float().unsqueeze(0) / 255.0) for frame in VideoDecoder(packets, height, width, device)]
    print(torch.cat(feats).cpu().mean().item())


if __name__ == "__main__":
    main()
