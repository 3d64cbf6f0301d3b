"""Per-frame luminance histograms: PyTorch preprocessing with a Numba kernel."""
from typing import Iterator, List

import torch
from numba import cuda

BINS = 64


@cuda.jit
def _histogram(values, counts):
    local = cuda.shared.array(64, dtype="int32")
    tid = cuda.threadIdx.x
    if tid < 64:
        local[tid] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    stride = cuda.gridsize(1)
    n = values.shape[0]
    while i < n:
        b = int(values[i] * 64)
        if b > 63:
            b = 63
        cuda.atomic.add(local, b, 1)
        i += stride
    cuda.syncthreads()
    if tid < 64:
        cuda.atomic.add(counts, tid, local[tid])


class HistogramExtractor:
    def __init__(self, device: torch.device, threads: int = 256, blocks: int = 512):
        self.device = device
        self.threads = threads
        self.blocks = blocks
        self.weights = torch.tensor([0.299, 0.587, 0.114], device=device).view(3, 1, 1)

    def luminance(self, frame: torch.Tensor) -> torch.Tensor:
        scaled = frame.to(torch.float32).div_(255.0)
        return (scaled * self.weights).sum(dim=0).reshape(-1).contiguous()

    def __call__(self, frame: torch.Tensor) -> torch.Tensor:
        values = self.luminance(frame)
        counts = torch.zeros(BINS, dtype=torch.int32, device=self.device)
        _histogram[self.blocks, self.threads](
            cuda.as_cuda_array(values), cuda.as_cuda_array(counts))
        return counts.to(torch.float32) / values.numel()


class SceneCutDetector:
    """Runs beside a training job, so all of its work goes to its own stream."""

    def __init__(self, device: torch.device, threshold: float):
        self.device = device
        self.threshold = threshold
        self.stream = torch.cuda.Stream(device)
        self.extractor = HistogramExtractor(device)
        self.previous = None
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def feed(self, frame: torch.Tensor) -> bool:
        with torch.cuda.stream(self.stream):
            on_device = frame.to(self.device, non_blocking=True)
            histogram = self.extractor(on_device)
            if self.previous is None:
                distance = 0.0
            else:
                distance = (histogram - self.previous).abs().sum().item()
            self.previous = histogram
        return distance > self.threshold


def frames(count: int, height: int, width: int) -> Iterator[torch.Tensor]:
    base = torch.randint(0, 256, (3, height, width), dtype=torch.uint8)
    for i in range(count):
        if i % 30 == 0:
            base = torch.randint(0, 64 + (i % 90) * 2, (3, height, width), dtype=torch.uint8)
        yield base.clone().pin_memory()


def detect(count: int) -> List[int]:
    detector = SceneCutDetector(torch.device("cuda", 0), threshold=0.4)
    return [i for i, f in enumerate(frames(count, 1080, 1920)) if detector.feed(f)]


def main() -> None:
    print("cuts at", detect(180))


if __name__ == "__main__":
    main()
