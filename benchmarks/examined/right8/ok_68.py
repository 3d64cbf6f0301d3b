"""Preconditioned Richardson iteration; the preconditioner runs beside the residual norm."""
import cupy as cp


class Precond:
    """Damped polynomial preconditioner on its own stream."""

    def __init__(self, apply_a, diag):
        self.apply_a, self.inv = apply_a, 1.0 / diag
        self.stream = cp.cuda.Stream(non_blocking=True)

    def start(self, r, z):
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        with self.stream:
            cp.multiply(r, self.inv, out=z)
            correction = r - self.apply_a(z)
            z += self.inv * correction
        self.event = self.stream.record()

    def join(self):
        cp.cuda.get_current_stream().wait_event(self.event)


def laplacian(shift):
    def apply(x):
        y = (2 + shift) * x
        y[1:] -= x[:-1]
        y[:-1] -= x[1:]
        return y
    return apply


def solve(b, shift=0.5, tol=1e-6, max_iter=500):
    a = laplacian(shift)
    diag = cp.full_like(b, 2 + shift)
    pre = Precond(a, diag)
    x = cp.zeros_like(b)
    z = cp.empty_like(b)
    norm0 = cp.linalg.norm(b).item()
    for it in range(max_iter):
        r = b - a(x)
        pre.start(r, z)
        rel = cp.linalg.norm(r).item() / norm0
        pre.join()
        if rel < tol:
            break
        x += z
    return x, it, rel


def main():
    with cp.cuda.Stream(non_blocking=True):
        b = cp.random.rand(1 << 18)
        x, it, rel = solve(b)
        return it, rel, float(x.max())


if __name__ == "__main__":
    print(main())
