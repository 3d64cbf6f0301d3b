"""Preprocess / detect / overlay chain where the overlay needs the raw frame too."""
import cupy as cp

_blend = cp.ElementwiseKernel(
    "float32 raw, float32 mask", "float32 out", "out = raw * 0.6f + mask * 0.4f", "blend")
_thresh = cp.ElementwiseKernel(
    "float32 x, float32 t", "float32 m", "m = x > t ? 255.f : 0.f", "thresh")


class Stage:
    def __init__(self, upstream=None):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.done = cp.cuda.Event(disable_timing=True)
        self.upstream = upstream

    def run(self, *args):
        if self.upstream is not None:
            self.stream.wait_event(self.upstream.done)
        with self.stream:
            self.process(*args)
        self.done.record(self.stream)


class Decode(Stage):
    def process(self, raw, level):
        raw.fill(level)
        raw[::2] *= 1.5


class Detect(Stage):
    def process(self, raw, mask):
        _thresh(raw, cp.float32(120), mask)


class Overlay(Stage):
    def process(self, raw, mask, out):
        _blend(raw, mask, out)


def main(levels, shape=(720, 1280)):
    raw = cp.empty(shape, cp.float32)
    mask = cp.empty(shape, cp.float32)
    out = cp.empty(shape, cp.float32)
    decode = Decode()
    detect = Detect(decode)
    overlay = Overlay(detect)
    decode.upstream = overlay
    totals = []
    for level in levels:
        decode.run(raw, level)
        detect.run(raw, mask)
        overlay.run(raw, mask, out)
        with overlay.stream:
            totals.append(out.sum())
    overlay.stream.synchronize()
    return [float(t) for t in totals]


if __name__ == "__main__":
    print(main([80.0, 100.0, 200.0]))
