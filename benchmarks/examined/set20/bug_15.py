"""GPU video decoding: hand out standalone NV12 frames as tensors."""
from collections import deque
from dataclasses import dataclass

import torch
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if rest else None


@dataclass
class FrameInfo:
    surface: int
    pitch: int
    width: int
    height: int
    pts: int
    producing_stream: torch.cuda.Stream


class SurfacePool:
    def __init__(self, count, width, height):
        self.width, self.height = width, height
        self.free = deque()
        for _ in range(count):
            ptr, pitch = self._alloc()
            self.free.append((ptr, pitch, None))

    def _alloc(self):
        err, ptr, pitch = cudart.cudaMallocPitch(self.width, self.height * 3 // 2)
        check((err,))
        return ptr, pitch

    def acquire(self, stream):
        ptr, pitch, last_use = self.free.popleft()
        if last_use is not None:
            stream.wait_event(last_use)
        return ptr, pitch

    def release(self, ptr, pitch, last_use):
        self.free.append((ptr, pitch, last_use))


class NvdecDecoder:
    """Wraps a parser that maps decoded pictures; post-processing runs on its stream."""

    def __init__(self, parser, width, height, device):
        self.parser = parser
        self.width, self.height = width, height
        self.device = device
        self.nvdec_stream = torch.cuda.Stream(device=device)
        self.pool = SurfacePool(8, width, height)

    def receive_frame(self):
        picture = self.parser.next_picture()
        if picture is None:
            return None
        mapped, mapped_pitch = self.parser.map(picture, self.nvdec_stream.cuda_stream)
        ptr, pitch = self.pool.acquire(self.nvdec_stream)
        check(cudart.cudaMemcpy2DAsync(
            ptr, pitch, mapped, mapped_pitch, self.width, self.height * 3 // 2,
            D2D, self.nvdec_stream.cuda_stream,
        ))
        self.parser.unmap_after(picture, self.nvdec_stream.cuda_stream)
        return FrameInfo(ptr, pitch, self.width, self.height, picture.pts, self.nvdec_stream)

    def make_frame_standalone(self, info):
        """Copy the surface into a tensor of its own and give the surface back."""
        current = torch.cuda.current_stream(self.device)
        out = torch.empty(
            info.height * 3 // 2, info.width, dtype=torch.uint8, device=self.device
        )
        check(cudart.cudaMemcpy2DAsync(
            out.data_ptr(), info.width, info.surface, info.pitch,
            info.width, info.height * 3 // 2, D2D, current.cuda_stream,
        ))
        self.pool.release(info.surface, info.pitch, current.record_event())
        return out


def nv12_to_rgb(frame, height, width):
    y = frame[:height].float() - 16.0
    uv = frame[height:].view(height // 2, width // 2, 2).float() - 128.0
    uv = uv.repeat_interleave(2, dim=0).repeat_interleave(2, dim=1)
    u, v = uv[..., 0], uv[..., 1]
    y = 1.164 * y
    rgb = torch.stack([y + 1.793 * v, y - 0.213 * u - 0.533 * v, y + 2.112 * u])
    return rgb.clamp_(0, 255).to(torch.uint8)


def decode_clip(parser, width, height, model):
    device = torch.device("cuda", 0)
    decoder = NvdecDecoder(parser, width, height, device)
    scores = []
    while True:
        info = decoder.receive_frame()
        if info is None:
            break
        frame = decoder.make_frame_standalone(info)
        rgb = nv12_to_rgb(frame, height, width)
        scores.append(model(rgb.unsqueeze(0).float().div_(255.0)).max())
    return torch.stack(scores).cpu()
