"""Tile inference: a thread pool decodes and uploads tiles, the main thread runs the model."""
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Tile:
    index: int
    pixels: torch.Tensor
    uploaded: torch.cuda.Event


class TileUploader:
    def __init__(self, size, device, workers=2):
        self.size = size
        self.device = device
        self.pool = ThreadPoolExecutor(workers)
        self.stream = torch.cuda.Stream(device)

    def _decode(self, index):
        gen = torch.Generator().manual_seed(index)
        return torch.rand(3, self.size, self.size, generator=gen)

    def _job(self, index):
        host = self._decode(index).pin_memory()
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            pixels = host.to(self.device, non_blocking=True).sub_(0.5).div_(0.25)
            uploaded = torch.cuda.Event()
            uploaded.record()
        return Tile(index, pixels, uploaded)

    def submit(self, index):
        return self.pool.submit(self._job, index)

    def shutdown(self):
        self.pool.shutdown()


def receive(future):
    tile = future.result()
    current = torch.cuda.current_stream()
    current.wait_event(tile.uploaded)
    tile.pixels.record_stream(current)
    return tile


@torch.inference_mode()
def run(n_tiles=64, depth=4):
    device = torch.device("cuda", 0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device).eval()
    uploader = TileUploader(512, device)
    flight = deque(uploader.submit(i) for i in range(depth))
    features = torch.zeros(n_tiles, 64, device=device)
    upcoming = depth
    while flight:
        tile = receive(flight.popleft())
        if upcoming < n_tiles:
            flight.append(uploader.submit(upcoming))
            upcoming += 1
        features[tile.index] = net(tile.pixels[None])[0]
    uploader.shutdown()
    return features.cpu()


if __name__ == "__main__":
    print(run().mean(0)[:8])
