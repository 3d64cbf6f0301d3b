"""Exporters that copy simulation fields to pinned memory; a derived exporter compresses before writing."""
import numpy as np
import torch


class FieldExporter:
    def __init__(self, shape):
        self.stream = torch.cuda.Stream()
        self.host = torch.empty(shape, pin_memory=True)
        self.snapshot = torch.empty(shape, device="cuda")
        self.copied = torch.cuda.Event()
        self.frames = []

    def capture(self, field):
        main = torch.cuda.current_stream()
        main.wait_event(self.copied)
        self.snapshot.copy_(field)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            self.host.copy_(self.snapshot, non_blocking=True)
            self.copied.record()

    def flush(self):
        self.copied.synchronize()
        self.store(self.host.numpy())

    def store(self, array):
        self.frames.append(array.copy())


class QuantizedExporter(FieldExporter):
    """Stores 8-bit frames scaled to the range of each frame."""

    def __init__(self, shape):
        super().__init__(shape)
        self.ranges = []

    def flush(self):
        array = self.host.numpy()
        lo, hi = float(array.min()), float(array.max())
        self.ranges.append((lo, hi))
        scaled = (array - lo) * (255.0 / max(hi - lo, 1e-12))
        self.store(scaled.astype(np.uint8))


EXPORTERS = {"raw": FieldExporter, "u8": QuantizedExporter}


class GrayScott:
    def __init__(self, n, exporter):
        self.u = torch.ones(n, n, device="cuda")
        self.v = torch.rand(n, n, device="cuda") * 0.2
        self.exporter = EXPORTERS[exporter]((n, n))

    def lap(self, a):
        return sum(a.roll(s, d) for s in (1, -1) for d in (0, 1)) - 4 * a

    def run(self, steps, every):
        for n in range(steps):
            uvv = self.u * self.v * self.v
            self.u.add_(0.16 * self.lap(self.u) - uvv + 0.035 * (1 - self.u))
            self.v.add_(0.08 * self.lap(self.v) + uvv - 0.1 * self.v)
            if n % every == 0:
                self.exporter.capture(self.v)
                self.exporter.flush()
        return self.exporter


def main():
    exporter = GrayScott(2048, "u8").run(2000, every=100)
    print(len(exporter.frames), exporter.ranges[-1])


if __name__ == "__main__":
    main()
