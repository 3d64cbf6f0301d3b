"""Scene-change scores with PyTorch preprocessing and a Numba kernel."""
from typing import Iterator, List, Optional

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

    def luminance(self, frame: torch.Tensor) -> torch.Tensor:
        red, green, blue = frame.to(torch.float32).div_(255.0)
        return (0.299 * red + 0.587 * green + 0.114 * blue).reshape(-1)

    def __call__(self, frame: torch.Tensor) -> torch.Tensor:
        values = self.luminance(frame)
        counts = torch.zeros(BINS, dtype=torch.int32, device=self.device)
        queue = cuda.external_stream(torch.cuda.current_stream(self.device).cuda_stream)
        _histogram[self.blocks, self.threads, queue](
            cuda.as_cuda_array(values), cuda.as_cuda_array(counts))
        return counts.to(torch.float32) / values.numel()


class SceneCutDetector:
    """Runs beside other jobs of the process, on a stream of its own."""

    def __init__(self, device: torch.device, threshold: float):
        self.device = device
        self.threshold = threshold
        self.stream = torch.cuda.Stream(device)
        self.extractor = HistogramExtractor(device)
        self.previous: Optional[torch.Tensor] = None

    def feed(self, frame: torch.Tensor) -> bool:
        with torch.cuda.stream(self.stream):
            on_device = frame.to(self.device, non_blocking=True)
            histogram = self.extractor(on_device).cpu()
        distance = 0.0
        if self.previous is not None:
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
