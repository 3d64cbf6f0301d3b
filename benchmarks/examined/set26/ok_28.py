"""Packet decoder with a small set of mapped surfaces and standalone frames."""
from collections import deque
import cupy as cp

H, W = 1080, 1920
SURFACE = (H * 3 // 2, W)

_render = cp.ElementwiseKernel(
    'int32 t', 'uint8 y', 'y = (unsigned char)((i * 7 + t) & 255)', 'render')
_luma_to_rgb = cp.ElementwiseKernel(
    'uint8 y', 'float32 o', 'o = (y - 16) * 1.164f / 255.f', 'luma_to_rgb')


class StandaloneFrame:
    def __init__(self):
        self.data = cp.empty(SURFACE, dtype=cp.uint8)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.released = cp.cuda.Event(disable_timing=True)
        self.pts = -1


class PacketDecoder:
    def __init__(self, num_surfaces=2, num_frames=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.surfaces = [cp.empty(SURFACE, dtype=cp.uint8)
                         for _ in range(num_surfaces)]
        self.free_frames = deque(StandaloneFrame() for _ in range(num_frames))
        self.count = 0

    def _map(self):
        surface = self.surfaces[self.count % len(self.surfaces)]
        with self.stream:
            _render(cp.int32(self.count), surface)
        return surface

    def make_frame_standalone(self, surface):
        frame = self.free_frames.popleft()
        self.stream.wait_event(frame.released)
        with self.stream:
            cp.copyto(frame.data, surface)
        frame.ready.record(self.stream)
        frame.pts = self.count
        return frame

    def decode(self):
        surface = self._map()
        frame = self.make_frame_standalone(surface)
        self.count += 1
        return frame

    def give_back(self, frame, stream):
        frame.released.record(stream)
        self.free_frames.append(frame)


class ColorConverter:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def convert(self, frame):
        self.stream.wait_event(frame.ready)
        with self.stream:
            return _luma_to_rgb(frame.data[:H])


def main(nframes=64):
    decoder, converter = PacketDecoder(), ColorConverter()
    with converter.stream:
        mean = cp.zeros((H, W), dtype=cp.float32)
    for _ in range(nframes):
        frame = decoder.decode()
        rgb = converter.convert(frame)
        decoder.give_back(frame, converter.stream)
        with converter.stream:
            mean += rgb
    converter.stream.synchronize()
    print(float(mean.mean()) / nframes)


if __name__ == "__main__":
    main()
