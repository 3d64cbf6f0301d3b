"""Rolling spectrogram of a live microphone feed (CuPy, page-locked capture buffer)."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

RATE = 48000
HOP = 4096
FFT = 8192


class Capture(threading.Thread):
    """Stand-in for an audio driver: pushes fixed-size float blocks."""

    def __init__(self, blocks, out):
        super().__init__(daemon=True)
        self.blocks = blocks
        self.out = out

    def run(self):
        rng = np.random.default_rng(0)
        phase = 0.0
        for b in range(self.blocks):
            t = phase + np.arange(HOP) / RATE
            sig = np.sin(2 * np.pi * (440.0 + 5.0 * b) * t) + 0.05 * rng.normal(size=HOP)
            phase = t[-1] + 1.0 / RATE
            self.out.put(sig.astype(np.float32))
        self.out.put(None)


class Spectrogram:
    def __init__(self, frames):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.capture = cupyx.empty_pinned((HOP,), dtype=np.float32)
        with self.stream:
            self.history = cp.zeros(FFT, dtype=cp.float32)
            self.hop = cp.empty(HOP, dtype=cp.float32)
            self.window = cp.hanning(FFT).astype(cp.float32)
            self.image = cp.zeros((frames, FFT // 2 + 1), dtype=cp.float32)
        self.row = 0

    def feed(self, block):
        np.copyto(self.capture, block)
        self.hop.set(self.capture, stream=self.stream)
        with self.stream:
            self.history[:-HOP] = self.history[HOP:].copy()
            self.history[-HOP:] = self.hop
            spec = cp.fft.rfft(self.history * self.window)
            self.image[self.row] = cp.log1p(cp.abs(spec))
        self.row += 1

    def result(self):
        with self.stream:
            img = cp.asnumpy(self.image[: self.row])
        return img


class Display:
    def __init__(self, bands=12):
        self.bands = bands

    def draw(self, img):
        edges = np.linspace(0, img.shape[1], self.bands + 1).astype(int)
        for row in img[:: max(1, len(img) // 8)]:
            means = [row[a:b].mean() for a, b in zip(edges[:-1], edges[1:])]
            print(" ".join(f"{m:5.2f}" for m in means))


def pump(blocks, spec):
    while True:
        block = blocks.get()
        if block is None:
            return
        spec.feed(block)


def main():
    count = 240
    blocks = queue.Queue(maxsize=64)
    mic = Capture(count, blocks)
    spec = Spectrogram(count)
    mic.start()
    pump(blocks, spec)
    mic.join()
    Display().draw(spec.result())


if __name__ == "__main__":
    main()
