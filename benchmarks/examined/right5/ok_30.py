import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class TileUpscaler:
    """Runs tiles on a side stream; on out-of-memory the tile is halved and retried."""

    def __init__(self, net: nn.Module, tile: int = 512, floor: int = 64):
        self.net, self.tile, self.floor = net, tile, floor
        self.stream = torch.cuda.Stream()

    def _tiles(self, h, w, size):
        for y in range(0, h, size):
            for x in range(0, w, size):
                yield slice(y, min(y + size, h)), slice(x, min(x + size, w))

    def _attempt(self, image, canvas, size):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        try:
            with torch.cuda.stream(self.stream):
                for ys, xs in self._tiles(image.shape[-2], image.shape[-1], size):
                    patch = self.net(image[..., ys, xs])
                    canvas[..., 2 * ys.start:2 * ys.stop, 2 * xs.start:2 * xs.stop].copy_(patch)
        finally:
            caller.wait_stream(self.stream)

    @torch.inference_mode()
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        b, c, h, w = image.shape
        canvas = torch.zeros(b, c, 2 * h, 2 * w, device=image.device)
        size = self.tile
        while True:
            try:
                self._attempt(image, canvas, size)
                return canvas
            except torch.cuda.OutOfMemoryError:
                if size <= self.floor:
                    raise
                size //= 2
                log.warning("out of memory, retrying with tile %d", size)
                torch.cuda.empty_cache()


def main():
    net = nn.Sequential(
        nn.Conv2d(3, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 12, 3, padding=1), nn.PixelShuffle(2)
    ).cuda()
    up = TileUpscaler(net)
    for _ in range(4):
        img = torch.rand(1, 3, 1080, 1920, device="cuda")
        out = up(img)
        print(out.mean().item())


if __name__ == "__main__":
    main()
