"""Least squares via eigen-decomposition with an optional worker stream."""
import cupy as cp
import numpy as np


class Handle:
    """Main stream plus a few workers, with fork and join."""

    def __init__(self, n_workers):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.workers = [cp.cuda.Stream(non_blocking=True) for _ in range(n_workers)]
        self.event = cp.cuda.Event(disable_timing=True)

    def get_next_usable_stream(self):
        return self.workers[0] if self.workers else self.stream

    def wait_on_main(self, stream):
        if stream is not self.stream:
            self.event.record(self.stream)
            stream.wait_event(self.event)

    def main_waits_on(self, stream):
        if stream is not self.stream:
            self.event.record(stream)
            self.stream.wait_event(self.event)


def lstsq_eig(handle, a, b):
    n_cols = a.shape[1]
    with handle.stream:
        cov = cp.empty((n_cols, n_cols), dtype=a.dtype)
        ab = cp.empty(n_cols, dtype=a.dtype)
        inv = cp.empty_like(cov)
    side = handle.get_next_usable_stream()
    handle.wait_on_main(side)
    with side:
        cp.dot(a.T, b, out=ab)
    with handle.stream:
        cp.dot(a.T, a, out=cov)
        s, q = cp.linalg.eigh(cov)
        keep = s > 1e-10
        scaled = cp.where(keep, q / cp.where(keep, s, 1.0), 0.0)
        cp.dot(scaled, q.T, out=inv)
    handle.main_waits_on(side)
    with handle.stream:
        w = cp.dot(inv, ab)
    return w


class LinearRegression:
    def __init__(self, n_workers=1):
        self.handle = Handle(n_workers)

    def fit(self, x, y):
        h = self.handle
        with h.stream:
            xd = cp.asarray(x)
            yd = cp.asarray(y)
            mu_x = xd.mean(axis=0)
            mu_y = yd.mean()
            xd -= mu_x
            yd -= mu_y
        w = lstsq_eig(h, xd, yd)
        with h.stream:
            self.coef_ = w
            self.intercept_ = mu_y - cp.dot(mu_x, w)
        return self

    def predict(self, x):
        with self.handle.stream:
            out = cp.dot(cp.asarray(x), self.coef_) + self.intercept_
            return cp.asnumpy(out)


def main(rows=50_000, cols=128):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, cols))
    coef = rng.standard_normal(cols)
    y = x @ coef + 3.0
    errors = []
    for n_workers in (0, 1, 2):
        model = LinearRegression(n_workers).fit(x, y)
        errors.append(float(np.abs(model.predict(x[:1000]) - y[:1000]).max()))
    return errors


if __name__ == "__main__":
    print(main())
