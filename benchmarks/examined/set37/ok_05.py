"""Channelized radio receiver: lag products are computed per channel stream and integrated on the default stream."""
from dataclasses import dataclass, field
from typing import Iterable, List

import cupy as cp
import numpy as np


@dataclass
class Channel:
    samples: int
    lag: int = 7
    stream: cp.cuda.Stream = field(default_factory=cp.cuda.Stream)

    def __post_init__(self):
        self.raw = cp.zeros(self.samples, dtype=cp.complex64)
        self.power = cp.zeros(self.samples, dtype=cp.float32)
        self.window = cp.asarray(np.hanning(self.samples).astype(np.float32))
        cp.cuda.Device().synchronize()

    def push(self, frame: np.ndarray) -> None:
        with self.stream:
            self.raw.set(frame)
            tapered = self.raw * self.window
            product = tapered * cp.conj(cp.roll(tapered, self.lag))
            cp.square(cp.abs(product), out=self.power)


class Integrator:
    def __init__(self, channels: int, samples: int, decay: float = 0.95):
        self.channels: List[Channel] = [Channel(samples) for _ in range(channels)]
        self.mean = cp.zeros((channels, samples), dtype=cp.float32)
        self.peak = cp.zeros((channels, samples), dtype=cp.float32)
        self.decay = np.float32(decay)
        self.count = 0

    def integrate(self) -> None:
        with cp.cuda.Stream.null:
            for row, channel in enumerate(self.channels):
                self.mean[row] += (1 - self.decay) * (channel.power - self.mean[row])
                cp.maximum(self.peak[row], channel.power, out=self.peak[row])
        self.count += 1

    def process(self, frames: Iterable[np.ndarray]) -> None:
        """frames: arrays of shape [channels, samples], complex64."""
        for block in frames:
            for channel, frame in zip(self.channels, block):
                channel.push(frame)
            self.integrate()

    def report(self) -> np.ndarray:
        with cp.cuda.Stream.null:
            ratio = self.peak / cp.maximum(self.mean, 1e-12)
            return cp.asnumpy(ratio.max(axis=1))


def noise(blocks: int, channels: int, samples: int) -> Iterable[np.ndarray]:
    rng = np.random.default_rng(11)
    for _ in range(blocks):
        block = np.empty((channels, samples), dtype=np.complex64)
        block.real = rng.standard_normal(block.shape, dtype=np.float32)
        block.imag = rng.standard_normal(block.shape, dtype=np.float32)
        yield block


if __name__ == "__main__":
    receiver = Integrator(channels=8, samples=1 << 20)
    receiver.process(noise(32, 8, 1 << 20))
    print(receiver.report())
