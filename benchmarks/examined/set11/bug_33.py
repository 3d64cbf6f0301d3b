"""Mirrors decimated simulation fields on a second device, where they are rendered."""
from typing import Dict, List

import warp as wp


@wp.kernel
def diffuse(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float), k: float):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        lap = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
        out[i, j] = u[i, j] + k * lap


@wp.kernel
def colorize(field: wp.array2d(dtype=float), lo: float, hi: float, image: wp.array2d(dtype=wp.vec3)):
    i, j = wp.tid()
    t = wp.clamp((field[i, j] - lo) / (hi - lo), 0.0, 1.0)
    image[i, j] = wp.vec3(t, 0.25 + 0.5 * t, 1.0 - t)


def copy_strided(dst: wp.array, src: wp.array) -> None:
    """Copy a strided array of one device into a contiguous array of another one."""
    src_stream = src.device.stream
    dst_stream = dst.device.stream
    staging = wp.empty(src.shape, dtype=src.dtype, device=src.device)
    wp.copy(staging, src, stream=src_stream)
    dst_stream.wait_stream(src_stream)
    wp.copy(dst, staging, stream=dst_stream)


class Simulation:
    def __init__(self, device: str, names: List[str], n: int):
        self.device = wp.get_device(device)
        wp.set_mempool_enabled(self.device, True)
        self.fields: Dict[str, wp.array] = {name: wp.zeros((n, n), dtype=float, device=self.device) for name in names}
        self.next: Dict[str, wp.array] = {name: wp.zeros((n, n), dtype=float, device=self.device) for name in names}

    def step(self, k: float) -> None:
        for name, field in self.fields.items():
            wp.launch(diffuse, dim=field.shape, inputs=[field, self.next[name], k], device=self.device)
        self.fields, self.next = self.next, self.fields


class FieldMirror:
    def __init__(self, simulation: Simulation, device: str, stride: int):
        self.simulation = simulation
        self.device = wp.get_device(device)
        self.stride = stride
        self.copies: Dict[str, wp.array] = {}
        for name, field in simulation.fields.items():
            shape = field[::stride, ::stride].shape
            self.copies[name] = wp.zeros(shape, dtype=float, device=self.device)
        self.image = wp.zeros(shape, dtype=wp.vec3, device=self.device)

    def update(self) -> None:
        for name, field in self.simulation.fields.items():
            copy_strided(self.copies[name], field[:: self.stride, :: self.stride])

    def render(self, name: str, lo: float, hi: float):
        wp.launch(colorize, dim=self.image.shape, inputs=[self.copies[name], lo, hi, self.image], device=self.device)
        return self.image.numpy()


def run(names: List[str], n: int, frames: int, substeps: int):
    simulation = Simulation("cuda:0", names, n)
    mirror = FieldMirror(simulation, "cuda:1", stride=4)
    wp.synchronize()
    images = []
    for frame in range(frames):
        for _ in range(substeps):
            simulation.step(0.1)
        mirror.update()
        images.append(mirror.render(names[frame % len(names)], 0.0, 1.0))
    return images
