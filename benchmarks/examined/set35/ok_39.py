"""Torch detector with a CuPy non-maximum pass; arrays cross through DLPack."""
from typing import List, Tuple

import cupy as cp
import numpy as np
import torch
import torch.nn as nn

_suppress = cp.RawKernel(
    r"""
extern "C" __global__
void suppress(const float* score, float* out, int h, int w, int r) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float v = score[y * w + x];
    for (int dy = -r; dy <= r; ++dy)
        for (int dx = -r; dx <= r; ++dx) {
            int yy = y + dy, xx = x + dx;
            if (yy >= 0 && yy < h && xx >= 0 && xx < w && score[yy * w + xx] > v) v = 0.0f;
        }
    out[y * w + x] = v;
}
""",
    "suppress",
)


class Detector(nn.Module):
    def __init__(self, width: int = 48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, 1, 5, padding=2), nn.Sigmoid()
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.net(image)[0, 0].contiguous()


class KeypointStage:
    def __init__(self, device: int = 0, radius: int = 3):
        self.device = device
        self.radius = radius
        self.detector = Detector().to(f"cuda:{device}").eval()
        self.forward_stream = torch.cuda.Stream(device=device)
        self.forward_stream.wait_stream(torch.cuda.current_stream(device))
        with cp.cuda.Device(device):
            self.post_stream = cp.cuda.Stream(non_blocking=True)

    @torch.inference_mode()
    def run(self, image: torch.Tensor, count: int = 256) -> List[Tuple[int, int]]:
        with torch.cuda.stream(self.forward_stream):
            heat = self.detector(image.to(f"cuda:{self.device}"))
            with cp.cuda.Device(self.device), self.post_stream:
                score = cp.from_dlpack(heat)
        h, w = heat.shape
        with cp.cuda.Device(self.device), self.post_stream:
            kept = cp.empty((h, w), dtype=cp.float32)
            grid = ((w + 15) // 16, (h + 15) // 16)
            _suppress(grid, (16, 16), (score, kept, np.int32(h), np.int32(w), np.int32(self.radius)))
            flat = cp.argpartition(kept.ravel(), -count)[-count:]
            picks = cp.asnumpy(flat)
            self.post_stream.synchronize()
        return [(int(i) // w, int(i) % w) for i in picks]


def main() -> None:
    stage = KeypointStage()
    for _ in range(20):
        points = stage.run(torch.rand(1, 1, 720, 1280))
        print(points[:3])


if __name__ == "__main__":
    main()
