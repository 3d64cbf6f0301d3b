"""Feature scaling between cuDF and CuPy, all memory from one RMM pool."""
import cudf
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator

COLUMNS = ["open", "high", "low", "close"]

SCALE = cp.ElementwiseKernel(
    "float64 x, float64 mean, float64 inv_std", "float64 z",
    "z = (x - mean) * inv_std", "standardize")


class Standardizer:
    """Standardizes columns on a stream of its own."""

    def __init__(self):
        self.stream = cp.cuda.Stream()

    def transform(self, frame):
        columns = {}
        for name in COLUMNS:
            values = frame[name].values
            with self.stream:
                inv_std = 1.0 / values.std()
                columns[name] = SCALE(values, values.mean(), inv_std)
        return cudf.DataFrame({name: cudf.Series(col) for name, col in columns.items()})


def make_frame(rng, rows):
    return cudf.DataFrame({name: rng.normal(100.0, 5.0, rows) for name in COLUMNS})


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    cp.cuda.set_allocator(rmm_cupy_allocator)
    rng = np.random.default_rng(4)
    scaler = Standardizer()
    for day in range(10):
        frame = make_frame(rng, 1_000_000)
        scaled = scaler.transform(frame)
        print(day, float(scaled["close"].sum()), float(scaled["open"].max()))


if __name__ == "__main__":
    main()
