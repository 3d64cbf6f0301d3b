"""Stereo video export: frames are warped on a render stream and JPEG-encoded by a worker pool."""
import io
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torchvision.io import encode_jpeg


def to_uint8(x):
    return x.mul(255.0).round_().clamp_(0, 255).to(torch.uint8)


class JpegEncoder:
    def __init__(self, device, quality=90):
        self.device = device
        self.quality = quality
        self.stream = torch.cuda.Stream(device=device)

    def encode(self, frame):
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            pixels = to_uint8(frame)
            data = encode_jpeg(pixels, quality=self.quality).cpu()
        return data


class StereoRenderer:
    def __init__(self, depth_model, device, divergence=2.0):
        self.depth_model = depth_model.to(device).eval()
        self.device = device
        self.divergence = divergence
        self.stream = torch.cuda.Stream(device=device)

    def warp(self, frame, depth):
        b, _, h, w = frame.shape
        ys, xs = torch.meshgrid(
            torch.linspace(-1, 1, h, device=frame.device),
            torch.linspace(-1, 1, w, device=frame.device),
            indexing="ij",
        )
        shift = depth[:, 0] * self.divergence * 0.01
        grid = torch.stack([xs.expand(b, -1, -1) + shift, ys.expand(b, -1, -1)], dim=-1)
        return F.grid_sample(frame, grid, padding_mode="border", align_corners=True)

    @torch.inference_mode()
    def render(self, frame_cpu):
        with torch.cuda.stream(self.stream):
            frame = frame_cpu.to(self.device).unsqueeze(0)
            depth = self.depth_model(frame)
            right = self.warp(frame, depth)
            return torch.cat([frame, right], dim=3)[0]


class ExportSession:
    def __init__(self, depth_model, device="cuda:0", workers=4):
        self.device = torch.device(device)
        self.renderer = StereoRenderer(depth_model, self.device)
        self.encoder = JpegEncoder(self.device)
        self.pool = ThreadPoolExecutor(max_workers=workers)

    def _save(self, index, frame, out_dir):
        data = self.encoder.encode(frame)
        buffer = io.BytesIO(data.numpy().tobytes())
        with open(f"{out_dir}/{index:06d}.jpg", "wb") as fp:
            fp.write(buffer.getvalue())
        return index

    def export(self, frames, out_dir):
        futures = []
        for index, frame_cpu in enumerate(frames):
            sbs = self.renderer.render(frame_cpu)
            futures.append(self.pool.submit(self._save, index, sbs, out_dir))
        return [f.result() for f in futures]
