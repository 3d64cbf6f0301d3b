"""Cloth relaxation in Warp with measurements overlapped on a second stream."""
from __future__ import annotations

import numpy as np
import warp as wp


@wp.kernel
def relax(pos: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3), width: int, rest: float):
    i = wp.tid()
    p = pos[i]
    push = wp.vec3(0.0, 0.0, 0.0)
    if i % width > 0:
        d = pos[i - 1] - p
        push += d * (1.0 - rest / wp.max(wp.length(d), 1.0e-6))
    if i % width < width - 1:
        d = pos[i + 1] - p
        push += d * (1.0 - rest / wp.max(wp.length(d), 1.0e-6))
    out[i] = p + 0.25 * push


@wp.kernel
def stretch(pos: wp.array(dtype=wp.vec3), width: int, rest: float, total: wp.array(dtype=float)):
    i = wp.tid()
    if i % width > 0:
        wp.atomic_add(total, 0, wp.abs(wp.length(pos[i] - pos[i - 1]) - rest))


class Cloth:
    def __init__(self, height: int, width: int, device: str = "cuda:0"):
        self.device = wp.get_device(device)
        self.width, self.count, self.rest = width, height * width, 1.0
        rng = np.random.default_rng(0)
        grid = np.stack(np.meshgrid(np.arange(width), np.arange(height), [0.0]), axis=-1).reshape(-1, 3)
        points = (1.1 * grid + rng.normal(0, 0.1, grid.shape)).astype(np.float32)
        self._measure_stream = wp.Stream(self.device)
        self._pos = wp.array(points, dtype=wp.vec3, device=self.device)
        self._next = wp.empty_like(self._pos)
        self._frozen = wp.empty_like(self._pos)
        self._total = wp.zeros(1, dtype=float, device=self.device)
        self._host_total = wp.zeros(1, dtype=float, device="cpu", pinned=True)
        self._measured = wp.Event(self.device)
        self._pending = False
        wp.synchronize_device(self.device)

    def step(self, count: int = 1) -> None:
        stream = wp.get_stream(self.device)
        for _ in range(count):
            wp.launch(
                relax, dim=self.count, inputs=[self._pos, self._next, self.width, self.rest], stream=stream
            )
            self._pos, self._next = self._next, self._pos

    def begin_measure(self) -> None:
        if self._pending:
            self.end_measure()
        side = self._measure_stream
        current = wp.get_stream(self.device)
        current.wait_stream(side)
        wp.copy(self._frozen, self._pos, stream=current)
        side.wait_stream(current)
        with wp.ScopedStream(side, sync_enter=False):
            self._total.zero_()
            wp.launch(
                stretch, dim=self.count, inputs=[self._frozen, self.width, self.rest, self._total], stream=side
            )
            wp.copy(self._host_total, self._total, stream=side)
            side.record_event(self._measured)
        self._pending = True

    def end_measure(self) -> float | None:
        if not self._pending:
            return None
        wp.synchronize_event(self._measured)
        self._pending = False
        return float(self._host_total.numpy()[0]) / self.count

    def positions(self) -> np.ndarray:
        return self._pos.numpy()


def main() -> None:
    wp.init()
    cloth = Cloth(256, 256)
    for round_ in range(6):
        cloth.begin_measure()
        cloth.step(20)
        if round_ % 3 != 2:
            print(round_, cloth.end_measure())
    print(cloth.end_measure(), cloth.end_measure())
    print(cloth.positions().mean(axis=0))


if __name__ == "__main__":
    main()
