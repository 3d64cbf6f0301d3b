"""Spring network stepped in Warp with telemetry copied on a second stream."""
from typing import List, Optional

import numpy as np
import warp as wp


@wp.kernel
def advance(x: wp.array(dtype=float), v: wp.array(dtype=float), k: float, damping: float, dt: float):
    i = wp.tid()
    v[i] = (v[i] - k * x[i] * dt) * (1.0 - damping * dt)
    x[i] = x[i] + v[i] * dt


class SpringSim:
    def __init__(self, positions: np.ndarray, device: str = "cuda:0", slots: int = 3):
        self.device = wp.get_device(device)
        self.count = len(positions)
        self.x = wp.array(positions.astype(np.float32), dtype=float, device=self.device)
        self.v = wp.zeros(self.count, dtype=float, device=self.device)
        self.frames = [wp.zeros(self.count, dtype=float, device=self.device) for _ in range(slots)]
        self.host = [wp.zeros(self.count, dtype=float, device="cpu", pinned=True) for _ in range(slots)]
        self.solver = wp.Stream(self.device)
        self.telemetry = wp.Stream(self.device)
        self.saved = [wp.Event(self.device) for _ in range(slots)]
        self.landed = [wp.Event(self.device) for _ in range(slots)]
        self.steps: List[Optional[int]] = [None] * slots
        self.turn = 0
        self.step_index = 0
        wp.synchronize_device(self.device)

    def step(self, count: int, k: float = 40.0, damping: float = 0.1, dt: float = 1e-3) -> None:
        for _ in range(count):
            wp.launch(advance, dim=self.count, inputs=[self.x, self.v, k, damping, dt],
                      device=self.device, stream=self.solver)
            self.step_index += 1

    def _read(self, slot: int, out: List) -> None:
        if self.steps[slot] is not None:
            wp.synchronize_event(self.landed[slot])
            out.append((self.steps[slot], self.host[slot].numpy().copy()))
            self.steps[slot] = None

    def capture(self, out: List) -> None:
        slot = self.turn
        self.turn = (slot + 1) % len(self.steps)
        self._read(slot, out)
        wp.copy(self.frames[slot], self.x, stream=self.solver)
        self.solver.record_event(self.saved[slot])
        self.telemetry.wait_event(self.saved[slot])
        wp.copy(self.host[slot], self.frames[slot], stream=self.telemetry)
        self.telemetry.record_event(self.landed[slot])
        self.steps[slot] = self.step_index

    def flush(self, out: List) -> None:
        for k in range(len(self.steps)):
            self._read((self.turn + k) % len(self.steps), out)

    def close(self) -> None:
        wp.synchronize_stream(self.solver)
        wp.synchronize_stream(self.telemetry)


def record(positions: np.ndarray, frames: int, stride: int) -> List:
    sim = SpringSim(positions)
    history: List = []
    try:
        for _ in range(frames):
            sim.step(stride)
            sim.capture(history)
        sim.flush(history)
    finally:
        sim.close()
    return history
