"""Small helper that spreads independent device tasks over a few streams."""
from __future__ import annotations

from typing import Callable, Iterable, Sequence

import torch
from torch.utils._pytree import tree_map_only


class StreamFan:
    def __init__(self, device: torch.device, width: int = 4) -> None:
        self.device = device
        self.streams = [torch.cuda.Stream(device) for _ in range(width)]

    def map(self, fn: Callable, items: Iterable[Sequence]) -> list:
        jobs = list(items)
        parent = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            stream.wait_stream(parent)
        results = []
        try:
            for index, args in enumerate(jobs):
                with torch.cuda.stream(self.streams[index % len(self.streams)]):
                    results.append(fn(*args))
        finally:
            for stream in self.streams:
                parent.wait_stream(stream)
        tree_map_only(torch.Tensor, lambda t: t.record_stream(parent), results)
        return results


def blur(image: torch.Tensor, sigma: float) -> torch.Tensor:
    radius = max(1, int(3 * sigma))
    axis = torch.arange(-radius, radius + 1, device=image.device, dtype=image.dtype)
    kernel = torch.exp(-0.5 * (axis / sigma) ** 2)
    kernel = (kernel / kernel.sum()).view(1, 1, -1)
    channels = image.shape[1]
    k = kernel.expand(channels, 1, -1).contiguous()
    out = torch.nn.functional.conv2d(
        image, k.unsqueeze(2), padding=(0, radius), groups=channels
    )
    return torch.nn.functional.conv2d(out, k.unsqueeze(3), padding=(radius, 0), groups=channels)


def difference_of_gaussians(
    image: torch.Tensor, sigmas: list[float], fan: StreamFan
) -> torch.Tensor:
    levels = fan.map(blur, ((image, sigma) for sigma in sigmas))
    return torch.stack([b - a for a, b in zip(levels, levels[1:])])


def pyramid(image: torch.Tensor, octaves: int, sigmas: list[float], fan: StreamFan) -> list[float]:
    peaks = []
    for _ in range(octaves):
        dog = difference_of_gaussians(image, sigmas, fan)
        peaks.append(dog.abs().amax())
        image = torch.nn.functional.avg_pool2d(image, 2)
    return torch.stack(peaks).tolist()


def main() -> None:
    device = torch.device("cuda:0")
    fan = StreamFan(device)
    image = torch.rand(1, 3, 1024, 1024, device=device)
    with torch.no_grad():
        print(pyramid(image, 3, [1.0, 1.6, 2.5, 4.0], fan))


if __name__ == "__main__":
    main()
