"""Log-scaled event features from cuDF frames."""
import cudf
import cupy as cp
import numpy as np


class FeatureScaler:
    def __init__(self, threshold=0.5):
        self.threshold = threshold
        self.stream = cp.cuda.Stream()
        with self.stream:
            self.moments = cp.zeros(2, cp.float64)
        self.rows = 0

    def fit_batch(self, frame):
        kept = frame[frame["energy"] > self.threshold]
        calibrated = kept["energy"] * kept["gain"]
        values = calibrated.values
        with self.stream:
            logs = cp.log(values)
            self.moments[0] += logs.sum()
            self.moments[1] += (logs * logs).sum()
        self.rows += len(kept)

    def parameters(self):
        with self.stream:
            total, square = self.moments.get()
        mean = total / self.rows
        return mean, np.sqrt(square / self.rows - mean * mean)


def batches(rng, count, rows=200_000):
    for _ in range(count):
        yield cudf.DataFrame({
            "energy": rng.gamma(2.0, 1.0, rows),
            "gain": rng.normal(1.0, 0.02, rows).clip(0.5, 2.0),
        })


def main():
    scaler = FeatureScaler()
    for frame in batches(np.random.default_rng(22), 20):
        scaler.fit_batch(frame)
    print(scaler.parameters())


if __name__ == "__main__":
    main()
