"""Microscopy stacks: upload, deconvolve and measure on separate streams."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Lanes:
    copy: torch.cuda.Stream
    filter: torch.cuda.Stream
    measure: torch.cuda.Stream

    @classmethod
    def create(cls):
        return cls(torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream())


class StackAnalyzer:
    def __init__(self, psf, shape):
        self.lanes = Lanes.create()
        self.otf = torch.fft.rfftn(psf.cuda(), s=shape)
        self.hist = torch.zeros(256, device="cuda")
        torch.cuda.synchronize()
        self.shape = shape
        self.keep = []

    def _deconvolve(self, volume):
        spec = torch.fft.rfftn(volume)
        spec = spec * self.otf.conj() / (self.otf.abs() ** 2 + 1e-2)
        return torch.fft.irfftn(spec, s=self.shape)

    def add(self, host):
        lanes = self.lanes
        with torch.cuda.stream(lanes.copy):
            volume = host.cuda(non_blocking=True)
            uploaded = lanes.copy.record_event()
        with torch.cuda.stream(lanes.filter):
            lanes.filter.wait_event(uploaded)
            sharp = self._deconvolve(volume)
        with torch.cuda.stream(lanes.measure):
            lanes.measure.wait_event(uploaded)
            self.hist += torch.histc(sharp - volume, 256, -1, 1)
        self.keep.append((volume, sharp))

    def result(self):
        torch.cuda.synchronize()
        self.keep.clear()
        return self.hist.cpu()


def main():
    shape = (32, 256, 256)
    psf = torch.zeros(shape)
    psf[:3, :5, :5] = 1 / 75
    analyzer = StackAnalyzer(psf, shape)
    for _ in range(20):
        analyzer.add(torch.rand(shape).pin_memory())
    print(analyzer.result())


if __name__ == "__main__":
    main()
