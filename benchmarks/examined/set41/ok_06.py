"""Packet decoder and colour converter running on separate streams."""
import torch


class PacketDecoder:
    def __init__(self, h, w, device="cuda"):
        self.h, self.w = h, w
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.count = 0

    def next_frame(self):
        with torch.cuda.stream(self.stream):
            luma = torch.full((self.h, self.w), float(self.count % 219), device=self.device)
            chroma = torch.full((2, self.h // 2, self.w // 2), 128.0, device=self.device)
            for _ in range(4):
                luma = torch.nn.functional.avg_pool2d(
                    luma[None, None], 3, stride=1, padding=1
                )[0, 0]
            ready = torch.cuda.Event()
            ready.record()
        self.count += 1
        return YuvFrame(luma, chroma, ready)


class YuvFrame:
    __slots__ = ("luma", "chroma", "ready")

    def __init__(self, luma, chroma, ready):
        self.luma, self.chroma, self.ready = luma, chroma, ready


class ColorConverter:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)

    def _borrow(self, frame):
        self.stream.wait_event(frame.ready)
        frame.luma.record_stream(self.stream)
        frame.chroma.record_stream(self.stream)

    def __call__(self, frame):
        self._borrow(frame)
        with torch.cuda.stream(self.stream):
            up = torch.nn.functional.interpolate(frame.chroma[None], scale_factor=2)[0]
            y = (frame.luma - 16.0) * 1.164
            u, v = up[0] - 128.0, up[1] - 128.0
            rgb = torch.stack((y + 1.596 * v, y - 0.392 * u - 0.813 * v, y + 2.017 * u))
            return rgb.clamp_(0, 255).to(torch.uint8)


class Clip:
    def __init__(self, frames, h, w):
        self.frames = frames
        self.decoder = PacketDecoder(h, w)
        self.converter = ColorConverter()

    def __iter__(self):
        for _ in range(self.frames):
            yield self.converter(self.decoder.next_frame())


def brightness(clip):
    total = None
    with torch.cuda.stream(clip.converter.stream):
        for rgb in clip:
            value = rgb.float().mean()
            total = value if total is None else total + value
    clip.converter.stream.synchronize()
    return total.item() / clip.frames


if __name__ == "__main__":
    print(brightness(Clip(120, 720, 1280)))
