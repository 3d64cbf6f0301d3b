from collections import deque
from typing import Deque, List, Tuple

import numpy as np
import warp as wp

wp.init()


@wp.kernel
def wave_step(h0: wp.array2d(dtype=float), h1: wp.array2d(dtype=float), k: float):
    i, j = wp.tid()
    n = h0.shape[0]
    m = h0.shape[1]
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        lap = h1[i + 1, j] + h1[i - 1, j] + h1[i, j + 1] + h1[i, j - 1] - 4.0 * h1[i, j]
        h0[i, j] = (2.0 * h1[i, j] - h0[i, j] + k * lap) * 0.999


@wp.kernel
def shade(h: wp.array2d(dtype=float), img: wp.array2d(dtype=wp.vec3)):
    i, j = wp.tid()
    v = wp.clamp(0.5 + 0.5 * h[i, j], 0.0, 1.0)
    img[i, j] = wp.vec3(v, v * v, 1.0 - v)


class WaveRenderer:
    """The simulation runs on the device's main stream, images are made on a second one."""

    def __init__(self, n: int, device: str = "cuda:0", depth: int = 3):
        self.n = n
        self.device = wp.get_device(device)
        rng = np.random.default_rng(3)
        self.h0 = wp.array(rng.standard_normal((n, n)).astype(np.float32), dtype=float, device=self.device)
        self.h1 = wp.clone(self.h0)
        self.render_stream = wp.Stream(self.device)
        self.free: Deque[Tuple[wp.array, wp.array]] = deque(
            (wp.zeros((n, n), dtype=wp.vec3, device=self.device),
             wp.zeros((n, n), dtype=wp.vec3, device="cpu", pinned=True))
            for _ in range(depth)
        )
        self.busy: Deque[Tuple[wp.Event, Tuple[wp.array, wp.array]]] = deque()

    def simulate(self, substeps: int) -> None:
        for _ in range(substeps):
            wp.launch(wave_step, dim=(self.n, self.n), inputs=[self.h0, self.h1, 0.2], device=self.device)
            self.h0, self.h1 = self.h1, self.h0

    def render(self) -> None:
        img, host = self.free.popleft()
        with wp.ScopedStream(self.render_stream):
            wp.launch(shade, dim=(self.n, self.n), inputs=[self.h1], outputs=[img], device=self.device)
            shaded = wp.record_event()
            wp.copy(host, img)
            done = wp.record_event()
        wp.get_stream(self.device).wait_event(shaded)
        self.busy.append((done, (img, host)))

    def collect(self) -> np.ndarray:
        done, slot = self.busy.popleft()
        wp.synchronize_event(done)
        frame = slot[1].numpy().copy()
        self.free.append(slot)
        return frame

    def run(self, frames: int, substeps: int = 8) -> List[np.ndarray]:
        out = []
        for _ in range(frames):
            self.simulate(substeps)
            if not self.free:
                out.append(self.collect())
            self.render()
        while self.busy:
            out.append(self.collect())
        return out
