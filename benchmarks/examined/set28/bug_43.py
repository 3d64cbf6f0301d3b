"""Asynchronous slicing and windowing of n-dimensional GPU data for an interactive plot."""
import asyncio
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np
import torch


class NDProcessor:
    """Maps slider indices to the 2D array that a graphic shows."""

    def __init__(self, data, window=8):
        self.data = data
        self.window = window
        self.stream = torch.cuda.Stream()

    @property
    def shape(self):
        return self.data.shape

    def _slice(self, t, z):
        lo = max(0, t - self.window)
        hi = min(self.shape[0], t + self.window + 1)
        return self.data[lo:hi, z]

    def get(self, indices):
        t, z = indices
        with torch.cuda.stream(self.stream):
            stack = self._slice(t, z)
            smooth = torch.nn.functional.avg_pool2d(stack[None], 3, stride=1, padding=1)[0]
            spectrum = torch.fft.rfft(smooth, dim=0)
            energy = spectrum.abs().square().sum(dim=0)
            low, high = torch.quantile(energy.flatten()[:: energy.numel() // 65536 + 1],
                                       torch.tensor([0.02, 0.98], device=energy.device))
            return ((energy - low) / (high - low)).clamp_(0.0, 1.0)


def to_host(array):
    """Resolve whatever a processor returned to a numpy array."""
    if hasattr(array, "__cuda_array_interface__"):
        return cp.asarray(array).get()
    return np.asarray(array)


class ImageGraphic:
    def __init__(self):
        self.updates = []

    def set_data(self, indices, image):
        self.updates.append((indices, float(image.mean()), float(image.max())))


class NDWidget:
    def __init__(self, processor):
        self.processor = processor
        self.graphic = ImageGraphic()
        self.pool = ThreadPoolExecutor(max_workers=1)

    async def set_indices(self, indices):
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self.pool, self.processor.get, indices)
        image = to_host(result)
        self.graphic.set_data(indices, image)

    async def play(self, z):
        for t in range(self.processor.shape[0]):
            await self.set_indices((t, z))


def main():
    generator = torch.Generator(device="cuda").manual_seed(5)
    movie = torch.rand((120, 4, 1024, 1024), device="cuda", generator=generator)
    torch.cuda.synchronize()
    widget = NDWidget(NDProcessor(movie))
    asyncio.run(widget.play(z=2))
    for row in widget.graphic.updates[::20]:
        print(row)


if __name__ == "__main__":
    main()
