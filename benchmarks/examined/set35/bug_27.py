"""Simulation bridge: Warp kernels stage body transforms, a torch renderer consumes them."""
from dataclasses import dataclass
from typing import List, Optional

import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), dt: float):
    tid = wp.tid()
    qd[tid] = qd[tid] + wp.vec3(0.0, 0.0, -9.81) * dt
    q[tid] = q[tid] + qd[tid] * dt


@wp.kernel
def stage_positions(
    q: wp.array(dtype=wp.vec3), index: wp.array(dtype=wp.int32), out: wp.array(dtype=wp.vec3)
):
    tid = wp.tid()
    out[tid] = q[index[tid]]


@dataclass
class Slot:
    positions: wp.array
    rendered: Optional[torch.cuda.Event] = None


class PointRenderer:
    def __init__(self, width: int, height: int, device: str):
        self.size = (height, width)
        self.stream = torch.cuda.Stream(device=device)
        self.view = torch.eye(3, device=device)
        self.stream.wait_stream(torch.cuda.current_stream())

    def render(self, slot: Slot) -> torch.Tensor:
        h, w = self.size
        with torch.cuda.stream(self.stream):
            points = wp.to_torch(slot.positions) @ self.view.T
            u = ((points[:, 0] * 0.5 + 0.5) * (w - 1)).long().clamp_(0, w - 1)
            v = ((points[:, 1] * 0.5 + 0.5) * (h - 1)).long().clamp_(0, h - 1)
            image = torch.full((h * w,), float("-inf"), device=points.device)
            image.scatter_reduce_(0, v * w + u, points[:, 2], reduce="amax")
            host = torch.empty(h * w, pin_memory=True)
            host.copy_(image, non_blocking=True)
            slot.rendered = torch.cuda.Event()
            slot.rendered.record()
        return host


class Bridge:
    def __init__(self, bodies: int, tracked: List[int], device: str = "cuda:0", slots: int = 2):
        self.device = device
        self.q = wp.zeros(bodies, dtype=wp.vec3, device=device)
        self.qd = wp.zeros(bodies, dtype=wp.vec3, device=device)
        self.index = wp.array(tracked, dtype=wp.int32, device=device)
        self.slots = [
            Slot(wp.zeros(len(tracked), dtype=wp.vec3, device=device)) for _ in range(slots)
        ]
        self.frame = 0
        self.renderer = PointRenderer(640, 480, device)
        wp.synchronize_device(device)

    def step(self, substeps: int = 8, dt: float = 1.0 / 480.0) -> None:
        for _ in range(substeps):
            wp.launch(integrate, dim=self.q.shape[0], inputs=[self.q, self.qd, dt], device=self.device)

    def draw(self):
        slot = self.slots[self.frame % len(self.slots)]
        if slot.rendered is not None:
            slot.rendered.synchronize()
        wp.launch(
            stage_positions,
            dim=self.index.shape[0],
            inputs=[self.q, self.index],
            outputs=[slot.positions],
            device=self.device,
        )
        self.frame += 1
        return self.renderer.render(slot), slot.rendered


def main() -> None:
    bridge = Bridge(bodies=200_000, tracked=list(range(0, 200_000, 4)))
    pending = []
    for _ in range(120):
        bridge.step()
        pending.append(bridge.draw())
        if len(pending) > 1:
            image, done = pending.pop(0)
            done.synchronize()
            print(float(image[image > float("-inf")].mean()))


if __name__ == "__main__":
    main()
