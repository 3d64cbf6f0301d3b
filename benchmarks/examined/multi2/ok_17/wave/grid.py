from dataclasses import dataclass

import cupy as cp


@dataclass
class Grid:
    n: int
    dx: float = 1.0
    c: float = 1.0
    dt: float = 0.5

    def levels(self):
        """Three time levels; the middle one starts as a gaussian."""
        axis = cp.arange(self.n, dtype=cp.float32) - self.n / 2
        bump = cp.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / (2 * 20.0 ** 2))
        return [bump.copy(), bump, cp.zeros_like(bump)]

    @property
    def courant2(self):
        return (self.c * self.dt / self.dx) ** 2

    def check(self):
        """The explicit scheme is stable below 1/sqrt(2)."""
        if self.courant2 > 0.5:
            raise ValueError(f"time step too long: {self.courant2:.3f} > 0.5")
        return self

    @property
    def nbytes(self):
        return 3 * self.n * self.n * 4

    def crossing_time(self):
        """Steps that a wave takes from side to side."""
        return int(self.n * self.dx / (self.c * self.dt))
