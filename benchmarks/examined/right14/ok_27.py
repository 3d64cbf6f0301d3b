"""Scores a large volume tile by tile."""
from __future__ import annotations

from collections import deque
from typing import Callable

import torch


class TileSource:
    def __init__(self, volume: torch.Tensor, tile: int, retain: int = 4) -> None:
        self.volume = volume
        self.tile = tile
        self.retain = retain
        self.device = volume.device
        self.stream = torch.cuda.Stream(self.device)
        self._held: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()

    def _origins(self) -> list[tuple[int, int]]:
        h, w = self.volume.shape[-2:]
        return [(r, c) for r in range(0, h, self.tile) for c in range(0, w, self.tile)]

    def _make(self, row: int, col: int) -> torch.Tensor:
        piece = self.volume[..., row:row + self.tile, col:col + self.tile]
        mean = piece.mean((-2, -1), keepdim=True)
        std = piece.std((-2, -1), keepdim=True).clamp_min_(1e-5)
        return (piece - mean) / std

    def _collect(self, keep: int) -> None:
        while self._held and self._held[0][0].query():
            self._held.popleft()
        while len(self._held) > keep:
            event, _ = self._held[0]
            event.synchronize()
            self._held.popleft()

    def _retire(self, tile: torch.Tensor) -> None:
        event = torch.cuda.current_stream(self.device).record_event()
        self._held.append((event, tile))

    def close(self) -> None:
        self._collect(0)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def apply(self, fn: Callable[[torch.Tensor], torch.Tensor], grid: torch.Tensor) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            for row, col in self._origins():
                self._collect(self.retain)
                with torch.cuda.stream(self.stream):
                    tile = self._make(row, col)
                torch.cuda.current_stream(self.device).wait_stream(self.stream)
                try:
                    grid[row // self.tile, col // self.tile].copy_(fn(tile))
                finally:
                    self._retire(tile)
                del tile
        finally:
            self.close()


def score(net: torch.nn.Module, volume: torch.Tensor, tile: int) -> torch.Tensor:
    rows = -(-volume.shape[-2] // tile)
    cols = -(-volume.shape[-1] // tile)
    grid = torch.zeros(rows, cols, device=volume.device)
    with torch.no_grad():
        TileSource(volume, tile).apply(lambda piece: net(piece).mean(), grid)
    return grid


def main() -> None:
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    net = torch.nn.Sequential(torch.nn.Conv2d(4, 16, 3, padding=1), torch.nn.ReLU()).to(device)
    volume = torch.rand(1, 4, 2048, 2048, device=device)
    print(score(net, volume, 256))


if __name__ == "__main__":
    main()
