"""Cloth-like relaxation in Warp with energy readings copied on a side stream."""
from __future__ import annotations

from collections import deque

import numpy as np
import warp as wp

wp.init()


@wp.kernel
def relax(
    src: wp.array(dtype=wp.vec3), dst: wp.array(dtype=wp.vec3), width: int, rest: float, rate: float
):
    i = wp.tid()
    row = i / width
    col = i - row * width
    p = src[i]
    if row == 0:
        dst[i] = p
        return
    move = wp.vec3(0.0, -0.0005, 0.0)
    if col > 0:
        d = src[i - 1] - p
        move = move + d * (1.0 - rest / wp.max(wp.length(d), 1.0e-6))
    if col < width - 1:
        d = src[i + 1] - p
        move = move + d * (1.0 - rest / wp.max(wp.length(d), 1.0e-6))
    d = src[i - width] - p
    move = move + d * (1.0 - rest / wp.max(wp.length(d), 1.0e-6))
    dst[i] = p + move * rate


@wp.kernel
def height(src: wp.array(dtype=wp.vec3), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, src[wp.tid()][1])


class Cloth:
    def __init__(self, rows: int, width: int, device: str, depth: int = 3) -> None:
        self.device = wp.get_device(device)
        self.width = width
        self.n = rows * width
        grid = np.zeros((rows, width, 3), dtype=np.float32)
        grid[..., 0] = np.arange(width) * 0.1
        grid[..., 2] = np.arange(rows)[:, None] * 0.1
        points = grid.reshape(-1, 3)
        self.a = wp.array(points, dtype=wp.vec3, device=self.device)
        self.b = wp.array(points, dtype=wp.vec3, device=self.device)
        self.totals = [wp.zeros(1, dtype=float, device=self.device) for _ in range(depth)]
        self.hosts = [wp.zeros(1, dtype=float, device="cpu", pinned=True) for _ in range(depth)]
        self.summed = [wp.Event(self.device) for _ in range(depth)]
        self.copied = [wp.Event(self.device) for _ in range(depth)]
        self.reader = wp.Stream(self.device)
        self.pending: deque[int] = deque()
        self.turn = 0
        self.readings: list[float] = []
        wp.synchronize_device(self.device)

    def step(self, iterations: int) -> None:
        for _ in range(iterations):
            wp.launch(
                relax, dim=self.n, inputs=[self.a, self.b, self.width, 0.1, 0.3], device=self.device
            )
            self.a, self.b = self.b, self.a

    def _read(self) -> None:
        slot = self.pending.popleft()
        wp.synchronize_event(self.copied[slot])
        self.readings.append(float(self.hosts[slot].numpy()[0]) / self.n)

    def measure(self) -> None:
        if len(self.pending) == len(self.totals):
            self._read()
        slot = self.turn
        self.turn = (slot + 1) % len(self.totals)
        self.totals[slot].zero_()
        wp.launch(height, dim=self.n, inputs=[self.a, self.totals[slot]], device=self.device)
        stream = wp.get_stream(self.device)
        stream.record_event(self.summed[slot])
        self.reader.wait_event(self.summed[slot])
        wp.copy(self.hosts[slot], self.totals[slot], stream=self.reader)
        self.reader.record_event(self.copied[slot])
        self.pending.append(slot)

    def finish(self) -> list[float]:
        while self.pending:
            self._read()
        readings, self.readings = self.readings, []
        return readings


def main() -> None:
    cloth = Cloth(256, 256, "cuda:0")
    for _ in range(3):
        for _ in range(10):
            cloth.step(20)
            cloth.measure()
        print(cloth.finish())


if __name__ == "__main__":
    main()
