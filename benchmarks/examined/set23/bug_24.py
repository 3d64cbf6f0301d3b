"""CUDA frame decoder with colour conversion on a library-owned stream."""
from collections import deque

import torch


class FrameOutput:
    def __init__(self, rgb, event, pts):
        self.rgb = rgb
        self.event = event
        self.pts = pts

    def data(self):
        """RGB tensor, ready for use on the current stream."""
        torch.cuda.current_stream().wait_event(self.event)
        return self.rgb


class VideoDecoder:
    def __init__(self, packets, height, width, device="cuda:0"):
        self.packets = packets  # pinned uint8 tensors, [3, H, W] YUV444
        self.height = height
        self.width = width
        self.device = torch.device(device)
        self.npp_stream = torch.cuda.Stream(self.device)
        self.matrix = torch.tensor(
            [[1.0, 0.0, 1.402], [1.0, -0.344, -0.714], [1.0, 1.772, 0.0]],
            device=self.device,
        )
        self.offset = torch.tensor([0.0, 128.0, 128.0], device=self.device).view(3, 1)
        self.position = 0

    def _decode_avframe(self):
        frame = torch.empty(
            (3, self.height, self.width), dtype=torch.uint8, device=self.device
        )
        frame.copy_(self.packets[self.position], non_blocking=True)
        return frame

    def _convert(self, yuv, rgb):
        flat = yuv.view(3, -1).float() - self.offset
        out = torch.matmul(self.matrix, flat).clamp_(0, 255)
        rgb.copy_(out.view_as(rgb))

    def decode_next(self):
        yuv = self._decode_avframe()
        rgb = torch.empty_like(yuv)
        self.npp_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.npp_stream):
            self._convert(yuv, rgb)
            done = torch.cuda.Event()
            done.record()
        pts = self.position
        self.position += 1
        return FrameOutput(rgb, done, pts)


def mean_colour(packets, height, width, lookahead=3):
    decoder = VideoDecoder(packets, height, width)
    pending = deque()
    means = []
    while decoder.position < len(packets) or pending:
        while decoder.position < len(packets) and len(pending) < lookahead:
            pending.append(decoder.decode_next())
        frame = pending.popleft()
        means.append(frame.data().float().mean(dim=(1, 2)))
    return torch.stack(means).cpu()
