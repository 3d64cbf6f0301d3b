import math

import numpy as np
from numba import cuda


@cuda.jit
def _beamform(samples, delays, weights, image):
    x, z = cuda.grid(2)
    if x >= image.shape[1] or z >= image.shape[0]:
        return
    acc = 0.0
    for channel in range(samples.shape[0]):
        index = delays[channel, z, x]
        lower = int(index)
        if 0 <= lower and lower + 1 < samples.shape[1]:
            frac = index - lower
            value = samples[channel, lower] * (1.0 - frac) + samples[channel, lower + 1] * frac
            acc += weights[channel] * value
    image[z, x] = acc


class Beamformer:
    def __init__(self, delays, weights, length):
        channels, depth, width = delays.shape
        self.upload = cuda.stream()
        self.delays = cuda.to_device(delays.astype(np.float32))
        self.weights = cuda.to_device(weights.astype(np.float32))
        self.host = cuda.pinned_array((channels, length), dtype=np.float32)
        self.samples = cuda.device_array((channels, length), np.float32)
        self.image = cuda.device_array((depth, width), np.float32)
        self.block = (16, 16)
        self.grid = (math.ceil(width / 16), math.ceil(depth / 16))

    def __call__(self, frame):
        self.host[...] = frame
        self.samples.copy_to_device(self.host, stream=self.upload)
        _beamform[self.grid, self.block](self.samples, self.delays, self.weights, self.image)
        return self.image.copy_to_host()


def plane_wave_delays(channels, depth, width, pitch, rate, speed=1540.0):
    element = (np.arange(channels) - channels / 2) * pitch
    x = (np.arange(width) - width / 2) * pitch
    z = (np.arange(depth) + 1) * speed / rate / 2
    distance = np.sqrt((x[None, None, :] - element[:, None, None]) ** 2 + z[None, :, None] ** 2)
    return (z[None, :, None] + distance) / speed * rate


def process(frames, channels=128, depth=1024, width=256, pitch=3e-4, rate=40e6):
    delays = plane_wave_delays(channels, depth, width, pitch, rate)
    former = Beamformer(delays, np.hamming(channels), frames.shape[-1])
    for frame in frames:
        image = np.abs(former(frame))
        yield 20 * np.log10(image / max(image.max(), 1e-12) + 1e-6)
