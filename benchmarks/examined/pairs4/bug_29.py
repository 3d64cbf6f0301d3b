"""Vibration monitor: sensor blocks in a device ring, spectra on the default stream."""
from dataclasses import dataclass, field

import torch


@dataclass
class Cell:
    host: torch.Tensor
    device: torch.Tensor
    landed: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    analysed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class BlockRing:
    def __init__(self, cells, sensors, samples):
        self.cells = [
            Cell(torch.zeros(sensors, samples, pin_memory=True), torch.zeros(sensors, samples, device="cuda"))
            for _ in range(cells)
        ]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.head = 0

    def append(self, block):
        cell = self.cells[self.head]
        self.head = (self.head + 1) % len(self.cells)
        cell.landed.synchronize()
        cell.host.copy_(block)
        with torch.cuda.stream(self.stream):
            cell.device.copy_(cell.host, non_blocking=True)
            cell.landed.record()
        return cell


class Monitor:
    def __init__(self, sensors=64, samples=16384):
        self.ring = BlockRing(3, sensors, samples)
        self.window = torch.hann_window(samples, device="cuda")
        self.baseline = torch.zeros(sensors, samples // 2 + 1, device="cuda")
        self.alarms = torch.zeros(sensors, device="cuda")

    def feed(self, block):
        cell = self.ring.append(block)
        torch.cuda.current_stream().wait_event(cell.landed)
        spectrum = torch.fft.rfft(cell.device * self.window).abs()
        harmonic = torch.stack([spectrum[:, k::7].mean(1) for k in range(1, 7)]).amax(0)
        self.alarms += (harmonic > 2 * self.baseline.mean(1)).float()
        self.baseline.lerp_(spectrum, 0.02)
        crest = cell.device.abs().amax(1) / cell.device.square().mean(1).sqrt()
        self.alarms += (crest > 5).float()
        cell.analysed.record()


def main():
    monitor = Monitor()
    for _ in range(1000):
        monitor.feed(torch.randn(64, 16384))
    print(monitor.alarms.tolist())


if __name__ == "__main__":
    main()
