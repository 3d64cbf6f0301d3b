"""Grouped statistics with cudf while CuPy works out a covariance."""
from dataclasses import dataclass

import cudf
import cupy as cp
import numpy as np
import pandas as pd


@dataclass
class Report:
    covariance: np.ndarray
    groups: pd.DataFrame


class FeatureReport:
    def __init__(self, columns, key):
        self.columns = list(columns)
        self.key = key
        self._side = cp.cuda.Stream(non_blocking=True)

    def _start_covariance(self, values):
        ready = cp.cuda.Stream.null.record()
        self._side.wait_event(ready)
        with self._side:
            centred = values - values.mean(axis=0)
            return centred.T @ centred / (len(values) - 1)

    def build(self, frame):
        values = frame[self.columns].to_cupy()
        cov = self._start_covariance(values)
        try:
            means = frame.groupby(self.key)[self.columns].mean().to_pandas()
        finally:
            self._side.synchronize()
        return Report(cp.asnumpy(cov), means)


def batches(paths):
    for path in paths:
        frame = cudf.read_parquet(path)
        if len(frame) < 2:
            continue
        yield frame.fillna(0.0)


def main(paths):
    report = FeatureReport(["price", "volume", "spread"], "symbol")
    for frame in batches(paths):
        r = report.build(frame)
        print(np.linalg.cond(r.covariance), r.groups.head())


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
