"""Conjugate gradients on a sparse matrix; the residual norm is polled from pinned memory."""
import cupy as cp
import cupyx
import cupyx.scipy.sparse as sp


class PinnedScalar:
    def __init__(self):
        self.host = cupyx.empty_pinned((1,), dtype=cp.float64)
        self.event = cp.cuda.Event(disable_timing=True)
        self.busy = False

    def post(self, value, stream):
        value.get(stream=stream, out=self.host, blocking=False)
        self.event.record(stream)
        self.busy = True

    def poll(self):
        if self.busy and self.event.done:
            self.busy = False
            return float(self.host[0])
        return None


class PolledCG:
    def __init__(self, a, tol=1e-8):
        self.a, self.tol = a, tol
        self.stream = cp.cuda.Stream(non_blocking=True)

    def solve(self, b, max_iter=5000):
        cp.cuda.get_current_stream().synchronize()
        probe = PinnedScalar()
        with self.stream:
            x = cp.zeros_like(b)
            r = b.copy()
            p = r.copy()
            rr = (r @ r).reshape(1)
            for it in range(max_iter):
                ap = self.a @ p
                alpha = rr / (p @ ap)
                x += alpha * p
                r -= alpha * ap
                rr_new = (r @ r).reshape(1)
                p = r + (rr_new / rr) * p
                rr = rr_new
                if not probe.busy:
                    probe.post(rr, self.stream)
                norm = probe.poll()
                if norm is not None and norm < self.tol ** 2:
                    break
        self.stream.synchronize()
        return x, it


def main(n=200_000):
    main_diag = cp.full(n, 4.0)
    off = cp.full(n - 1, -1.0)
    a = sp.diags([off, main_diag, off], [-1, 0, 1], format="csr")
    x, it = PolledCG(a).solve(cp.ones(n))
    print(it, float(cp.linalg.norm(a @ x - 1)))


if __name__ == "__main__":
    main()
