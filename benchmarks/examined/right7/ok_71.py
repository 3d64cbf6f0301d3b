"""Numba post-processing on the torch stream."""
import torch
from numba import cuda as ncuda


@ncuda.jit
def suppress(scores, keep, limit):
    i = ncuda.grid(1)
    if i < scores.shape[0]:
        keep[i] = 1 if scores[i] > limit else 0


class NumbaStage:
    def __init__(self, limit: float):
        self.limit = limit
        self._cache = {}

    def _stream(self):
        raw = torch.cuda.current_stream().cuda_stream
        if raw not in self._cache:
            self._cache[raw] = ncuda.external_stream(raw) if raw else ncuda.legacy_default_stream()
        return self._cache[raw]

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        keep = torch.empty(scores.shape[0], dtype=torch.int32, device="cuda")
        blocks = (scores.shape[0] + 127) // 128
        s = ncuda.as_cuda_array(scores.detach(), sync=False)
        k = ncuda.as_cuda_array(keep, sync=False)
        suppress[blocks, 128, self._stream()](s, k, self.limit)
        return keep


class Detector:
    def __init__(self):
        self.stage = NumbaStage(0.7)
        self.stream = torch.cuda.Stream()
        self.count = torch.zeros((), dtype=torch.long, device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())

    def frame(self, n: int):
        with torch.cuda.stream(self.stream):
            scores = torch.rand(n, device="cuda")
            self.count += self.stage(scores).sum()

    def total(self) -> int:
        with torch.cuda.stream(self.stream):
            return self.count.item()


if __name__ == "__main__":
    det = Detector()
    for _ in range(20):
        det.frame(10_000)
    print(det.total())
