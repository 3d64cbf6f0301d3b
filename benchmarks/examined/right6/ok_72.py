import cudf
import cupy as cp
import numpy as np


def make_frame(rows, seed):
    rng = np.random.default_rng(seed)
    return cudf.DataFrame({"key": rng.integers(0, 50, rows),
                           "x": rng.standard_normal(rows), "y": rng.standard_normal(rows)})


class Correlator:
    """cuDF prepares columns on the default stream, CuPy workers reduce them."""

    def __init__(self, workers=3):
        self.streams = [cp.cuda.Stream() for _ in range(workers)]

    def pairs(self, frame):
        means = frame.groupby("key").mean().sort_index()
        centred = frame.merge(means, left_on="key", right_index=True, suffixes=("", "_m"))
        x = (centred["x"] - centred["x_m"]).values
        y = (centred["y"] - centred["y_m"]).values
        return x, y

    def __call__(self, frame):
        x, y = self.pairs(frame)
        jobs = [(x, x), (y, y), (x, y)]
        parts = []
        for stream, (a, b) in zip(self.streams, jobs):
            with stream:
                parts.append(cp.dot(a, b))
        xx, yy, xy = parts
        return float(xy / cp.sqrt(xx * yy))


def main():
    correlate = Correlator()
    for seed in range(4):
        print(seed, round(correlate(make_frame(200000, seed)), 5))


if __name__ == "__main__":
    main()
