"""Level update of the ideal-MHD solver: hydro fluxes, then constrained transport per box."""
from dataclasses import dataclass

import numpy as np
import warp as wp

wp.init()

NVAR = 8


@wp.kernel
def hll_flux(cons: wp.array2d(dtype=float), cmax: float, flux: wp.array2d(dtype=float)):
    i, v = wp.tid()
    right = wp.min(i + 1, cons.shape[0] - 1)
    flux[i, v] = 0.5 * (cons[i, v] + cons[right, v]) - 0.5 * cmax * (cons[right, v] - cons[i, v])


@wp.kernel
def corner_emf(flux: wp.array2d(dtype=float), lo: int, emf: wp.array(dtype=float)):
    i = lo + wp.tid()
    left = wp.max(i - 1, 0)
    emf[i] = 0.25 * (flux[i, 5] + flux[left, 5] - flux[i, 6] - flux[left, 6])


@wp.kernel
def apply_update(
    flux: wp.array2d(dtype=float),
    emf: wp.array(dtype=float),
    dt: float,
    cons: wp.array2d(dtype=float),
):
    i, v = wp.tid()
    left = wp.max(i - 1, 0)
    delta = flux[left, v] - flux[i, v]
    if v >= 5:
        delta = delta + emf[left] - emf[i]
    cons[i, v] = cons[i, v] + dt * delta


@dataclass
class Box:
    lo: int
    ncells: int


class MHDLevel:
    """One AMR level; all boxes of the rank live in one contiguous allocation."""

    def __init__(self, boxes, device="cuda:0", num_streams=4):
        self.device = wp.get_device(device)
        self.boxes = boxes
        self.ncells = sum(b.ncells for b in boxes)
        self.streams = [wp.Stream(self.device) for _ in range(num_streams)]
        self.cons = wp.zeros((self.ncells, NVAR), dtype=float, device=self.device)
        self.flux = wp.zeros((self.ncells, NVAR), dtype=float, device=self.device)
        self.emf = wp.zeros(self.ncells, dtype=float, device=self.device)

    def init_data(self, rng):
        self.cons.assign(rng.random((self.ncells, NVAR), dtype=np.float32))
        wp.synchronize_device(self.device)

    def compute_fluxes(self, cmax):
        wp.launch(
            hll_flux,
            dim=(self.ncells, NVAR),
            inputs=[self.cons, cmax],
            outputs=[self.flux],
            device=self.device,
        )

    def compute_emf(self):
        for k, box in enumerate(self.boxes):
            wp.launch(
                corner_emf,
                dim=box.ncells,
                inputs=[self.flux, box.lo],
                outputs=[self.emf],
                stream=self.streams[k % len(self.streams)],
            )

    def advance(self, dt, cmax):
        self.compute_fluxes(cmax)
        self.compute_emf()
        with wp.ScopedDevice(self.device):
            for stream in self.streams:
                wp.wait_stream(stream)
        wp.launch(
            apply_update,
            dim=(self.ncells, NVAR),
            inputs=[self.flux, self.emf, dt],
            outputs=[self.cons],
            device=self.device,
        )


def main():
    boxes = [Box(lo=k * 4096, ncells=4096) for k in range(16)]
    level = MHDLevel(boxes)
    level.init_data(np.random.default_rng(3))
    for step in range(200):
        level.advance(dt=1.0e-4, cmax=1.5)
        if step % 50 == 0:
            print(step, float(level.cons.numpy()[:, 0].sum()))


if __name__ == "__main__":
    main()
