"""Block-structured finite-volume update; per-box kernels are spread over a few streams."""
import cupy as cp


class BoxIterator:
    """Yields (box, stream) pairs in round-robin order."""

    def __init__(self, nx, ny, box, streams):
        self.boxes = [
            (slice(i, min(i + box, nx)), slice(j, min(j + box, ny)))
            for i in range(0, nx, box)
            for j in range(0, ny, box)
        ]
        self.streams = streams

    def __iter__(self):
        for n, box in enumerate(self.boxes):
            stream = self.streams[n % len(self.streams)]
            with stream:
                yield box, stream


class MHDSolver:
    def __init__(self, nx=2048, ny=2048, box=512, num_streams=4):
        self.nx, self.ny, self.box = nx, ny, box
        self.main = cp.cuda.Stream(non_blocking=True)
        self.box_streams = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        with self.main:
            self.vx = cp.random.standard_normal((nx, ny)).astype(cp.float32)
            self.vy = cp.random.standard_normal((nx, ny)).astype(cp.float32)
            self.bx = cp.ones((nx, ny), cp.float32)
            self.by = cp.zeros((nx, ny), cp.float32)
            self.emf = cp.zeros((nx, ny), cp.float32)

    def _compute_emf(self):
        ready = self.main.record()
        for stream in self.box_streams:
            stream.wait_event(ready)
        for (si, sj), _stream in BoxIterator(self.nx, self.ny, self.box, self.box_streams):
            vx, vy = self.vx[si, sj], self.vy[si, sj]
            bx, by = self.bx[si, sj], self.by[si, sj]
            cell = vy * bx - vx * by
            upwind = cp.where(vx > 0, cell, cp.roll(cell, 1, axis=0))
            limited = cp.minimum(cp.abs(upwind), cp.abs(cell)) * cp.sign(cell)
            self.emf[si, sj] = 0.5 * (cell + limited)

    def _update_field(self, dt):
        with self.main:
            dbx = self.emf - cp.roll(self.emf, 1, axis=1)
            dby = cp.roll(self.emf, 1, axis=0) - self.emf
            self.bx += dt * dbx
            self.by += dt * dby

    def _relax_velocity(self):
        with self.main:
            force = self.bx * self.by
            self.vx -= 1e-3 * (force - cp.roll(force, 1, axis=0))
            self.vy -= 1e-3 * (force - cp.roll(force, 1, axis=1))

    def step(self, dt):
        self._compute_emf()
        self._update_field(dt)
        self._relax_velocity()

    def energy(self):
        with self.main:
            return float((self.bx ** 2 + self.by ** 2).sum())


def main():
    solver = MHDSolver()
    for _ in range(100):
        solver.step(1e-4)
    print(solver.energy())


if __name__ == "__main__":
    main()
