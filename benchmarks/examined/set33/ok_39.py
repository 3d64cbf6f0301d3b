from typing import Iterator, List

import numpy as np
import torch


class SignalWindow:
    """Sliding window over a sampled signal, mirrored on the device."""

    def __init__(self, length: int, hop: int, device="cuda:0"):
        if length % hop:
            raise ValueError("length must be a multiple of hop")
        self.length, self.hop = length, hop
        self.device = torch.device(device)
        self.chunk = np.zeros(hop, dtype=np.float32)
        self.chunk_view = torch.from_numpy(self.chunk)
        self.window = torch.zeros(length, device=self.device)
        self.next = torch.zeros(length, device=self.device)
        self.taper = torch.hann_window(length, device=self.device)

    def advance(self, fill) -> torch.Tensor:
        fill(self.chunk)
        self.next[: -self.hop].copy_(self.window[self.hop :])
        self.next[-self.hop :].copy_(self.chunk_view, non_blocking=True)
        self.window, self.next = self.next, self.window
        return self.window * self.taper


class SpectrumMonitor:
    def __init__(self, window: SignalWindow, smooth: float = 0.9):
        self.window = window
        self.smooth = smooth
        self.level = torch.zeros(window.length // 2 + 1, device=window.device)

    @torch.no_grad()
    def feed(self, fill) -> None:
        frame = self.window.advance(fill)
        power = torch.fft.rfft(frame).abs().square()
        self.level.mul_(self.smooth).add_(power, alpha=1.0 - self.smooth)

    def peaks(self, count: int = 5) -> List[int]:
        return self.level.topk(count).indices.cpu().tolist()


class FileSource:
    """Reads raw float32 samples into the caller's array."""

    def __init__(self, path: str):
        self.samples = np.memmap(path, dtype=np.float32, mode="r")
        self.position = 0

    def exhausted(self, hop: int) -> bool:
        return self.position + hop > self.samples.size

    def __call__(self, out: np.ndarray) -> None:
        np.copyto(out, self.samples[self.position : self.position + out.size])
        self.position += out.size


def monitor(path: str, length: int = 8192, hop: int = 1024, report: int = 64) -> Iterator[List[int]]:
    source = FileSource(path)
    spectrum = SpectrumMonitor(SignalWindow(length, hop))
    frames = 0
    while not source.exhausted(hop):
        spectrum.feed(source)
        frames += 1
        if frames % report == 0:
            yield spectrum.peaks()


if __name__ == "__main__":
    import sys

    for found in monitor(sys.argv[1]):
        print(found)
