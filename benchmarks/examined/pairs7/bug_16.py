"""Line search for a fit; residuals land in mapped host memory."""
import numpy as np
from numba import cuda

POINTS = 1 << 16


@cuda.jit
def residuals(x, y, a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        r = y[i] - (a * x[i] + b)
        out[i] = r * r


class Candidate:
    def __init__(self):
        self.stream = cuda.stream()
        self.event = cuda.event(timing=False)
        self.out = cuda.mapped_array(POINTS, dtype=np.float64)

    def evaluate(self, x, y, a, b):
        self.event.record(self.stream)
        residuals[POINTS // 256, 256, self.stream](x, y, a, b, self.out)

    @property
    def cost(self):
        self.event.synchronize()
        return self.out.mean()


class LineSearch:
    def __init__(self, x, y, width=4):
        self.x, self.y = cuda.to_device(x), cuda.to_device(y)
        self.pool = [Candidate() for _ in range(width)]

    def slope(self, low, high, b, rounds=12):
        for _ in range(rounds):
            trial = np.linspace(low, high, len(self.pool))
            for candidate, a in zip(self.pool, trial):
                candidate.evaluate(self.x, self.y, a, b)
            costs = [candidate.cost for candidate in self.pool]
            best = int(np.argmin(costs))
            low = trial[max(best - 1, 0)]
            high = trial[min(best + 1, len(trial) - 1)]
        return 0.5 * (low + high)


def main():
    rng = np.random.default_rng(20)
    x = rng.random(POINTS)
    y = 3.7 * x + 0.5 + rng.normal(0, 0.01, POINTS)
    print(LineSearch(x, y).slope(0.0, 10.0, 0.5))


if __name__ == "__main__":
    main()
