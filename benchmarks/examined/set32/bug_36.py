"""Batched implicit steps for many small stiff systems, split over solver streams."""
import cupy as cp


class Batch:
    def __init__(self, count, size, dtype=cp.float64):
        self.count, self.size = count, size
        self.a = cp.empty((count, size, size), dtype=dtype)
        self.b = cp.empty((count, size), dtype=dtype)

    def assemble(self, jacobian, state, dt):
        eye = cp.eye(self.size, dtype=self.a.dtype)
        self.a[...] = eye - dt * jacobian(state)
        self.b[...] = state
        return self


class StreamedSolver:
    def __init__(self, streams=4):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(streams)]

    def _parts(self, count):
        step = -(-count // len(self.streams))
        for i, stream in enumerate(self.streams):
            lo, hi = i * step, min(count, (i + 1) * step)
            if lo < hi:
                yield stream, slice(lo, hi)

    def solve_all(self, batch, out):
        for stream in self.streams:
            stream.synchronize()
        for stream, part in self._parts(batch.count):
            with stream:
                inv = cp.linalg.inv(batch.a[part])
                out[part] = cp.matmul(inv, batch.b[part][..., None])[..., 0]
        for stream in self.streams:
            stream.synchronize()
        return out


def robertson(state):
    y1, y2, y3 = state[:, 0], state[:, 1], state[:, 2]
    jac = cp.zeros((state.shape[0], 3, 3), dtype=state.dtype)
    jac[:, 0, 0] = -0.04
    jac[:, 0, 1] = 1e4 * y3
    jac[:, 0, 2] = 1e4 * y2
    jac[:, 1, 0] = 0.04
    jac[:, 1, 1] = -1e4 * y3 - 6e7 * y2
    jac[:, 1, 2] = -1e4 * y2
    jac[:, 2, 1] = 6e7 * y2
    return jac


class Integrator:
    def __init__(self, count, size, jacobian):
        self.batch = Batch(count, size)
        self.solver = StreamedSolver()
        self.jacobian = jacobian
        self.next = cp.empty((count, size), dtype=cp.float64)

    def step(self, state, dt):
        self.batch.assemble(self.jacobian, state, dt)
        self.solver.solve_all(self.batch, self.next)
        state[...] = self.next
        cp.cuda.Stream.null.synchronize()
        return state

    def integrate(self, state, dt, steps):
        for _ in range(steps):
            state = self.step(state, dt)
        return state


def main(count=100_000, steps=50):
    start = cp.tile(cp.asarray([1.0, 0.0, 0.0]), (count, 1))
    cp.cuda.Stream.null.synchronize()
    final = Integrator(count, 3, robertson).integrate(start, 1e-3, steps)
    return cp.asnumpy(final.mean(axis=0))


if __name__ == "__main__":
    print(main())
