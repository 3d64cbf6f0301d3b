from __future__ import annotations

from contextlib import ExitStack, contextmanager

import cupy as cp
import torch
from numba import cuda


@cuda.jit
def scatter_points(points, image, width):
    i = cuda.grid(1)
    if i < points.shape[0]:
        px = int(points[i, 0])
        py = int(points[i, 1])
        cuda.atomic.add(image, py * width + px, 1.0)


class SharedQueue:
    """The same CUDA stream under its torch, CuPy and Numba names."""

    def __init__(self, device: int = 0) -> None:
        self.torch = torch.cuda.Stream(device)
        self.cupy = cp.cuda.ExternalStream(self.torch.cuda_stream, device)
        self.numba = cuda.external_stream(self.torch.cuda_stream)

    @contextmanager
    def active(self):
        outer = torch.cuda.current_stream()
        self.torch.wait_stream(outer)
        with ExitStack() as stack:
            stack.enter_context(torch.cuda.stream(self.torch))
            stack.enter_context(self.cupy)
            yield self
        outer.wait_stream(self.torch)


class Renderer:
    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.queue = SharedQueue()
        with torch.cuda.stream(self.queue.torch):
            self.canvas = torch.zeros(height * width, device="cuda")

    def render(self, points: torch.Tensor) -> torch.Tensor:
        with self.queue.active() as q:
            scale = torch.tensor([self.width - 1, self.height - 1], device="cuda", dtype=torch.float32)
            pixels = (points.clamp(0, 1) * scale).contiguous()
            self.canvas.zero_()
            n = pixels.shape[0]
            scatter_points[(n + 255) // 256, 256, q.numba](
                cuda.as_cuda_array(pixels, sync=False),
                cuda.as_cuda_array(self.canvas, sync=False),
                self.width,
            )
            density = cp.asarray(self.canvas).reshape(self.height, self.width)
            toned = cp.log1p(density)
            toned /= toned.max() + 1e-6
            image = torch.empty(self.height, self.width, device="cuda")
            cp.asarray(image)[...] = toned
            points.record_stream(q.torch)
        image.record_stream(torch.cuda.current_stream())
        return image


def main() -> None:
    renderer = Renderer(640, 480)
    total = 0.0
    for _ in range(30):
        pts = torch.rand(50_000, 2, device="cuda").sqrt_()
        total += renderer.render(pts).mean().item()
    print(total / 30)


if __name__ == "__main__":
    main()
