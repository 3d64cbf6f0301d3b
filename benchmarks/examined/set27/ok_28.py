"""Matrix profile on several GPUs: every device handles a range of the rows."""
import math

import numpy as np
from numba import cuda

THREADS = 512


@cuda.jit
def compute_and_update(i, T, m, QT_even, QT_odd, QT_first, mu, sigma, excl, profile, index):
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for j in range(start, QT_even.size, stride):
        if i % 2 == 0:
            qt_in, qt_out = QT_odd, QT_even
        else:
            qt_in, qt_out = QT_even, QT_odd
        if j == 0:
            qt_out[j] = QT_first[i]
        else:
            qt_out[j] = qt_in[j - 1] - T[i - 1] * T[j - 1] + T[i + m - 1] * T[j + m - 1]
        d = 1.0 - (qt_out[j] - m * mu[i] * mu[j]) / (m * sigma[i] * sigma[j])
        d = 2.0 * m * max(d, 0.0)
        if abs(i - j) > excl and d < profile[j]:
            profile[j] = d
            index[j] = i


class DeviceRange:
    """State of one device; created and used inside its context."""

    def __init__(self, device_id, T, m, mu, sigma, QT, QT_first, rows):
        self.device_id = device_id
        self.m = m
        self.rows = rows
        k = QT.size
        with cuda.gpus[device_id]:
            self.stream = cuda.stream()
            self.T = cuda.to_device(T, stream=self.stream)
            self.mu = cuda.to_device(mu, stream=self.stream)
            self.sigma = cuda.to_device(sigma, stream=self.stream)
            self.QT_even = cuda.to_device(QT, stream=self.stream)
            self.QT_odd = cuda.to_device(QT, stream=self.stream)
            self.QT_first = cuda.to_device(QT_first, stream=self.stream)
            self.profile = cuda.to_device(np.full(k, np.inf), stream=self.stream)
            self.index = cuda.to_device(np.full(k, -1, dtype=np.int64), stream=self.stream)
            self.h_profile = cuda.pinned_array(k, dtype=np.float64)
            self.h_index = cuda.pinned_array(k, dtype=np.int64)
            self.stream.synchronize()

    def start(self):
        k = self.QT_even.size
        blocks = math.ceil(k / THREADS)
        with cuda.gpus[self.device_id]:
            for i in self.rows:
                compute_and_update[blocks, THREADS, self.stream](
                    i, self.T, self.m, self.QT_even, self.QT_odd, self.QT_first,
                    self.mu, self.sigma, self.m // 4, self.profile, self.index)
            self.profile.copy_to_host(self.h_profile, stream=self.stream)
            self.index.copy_to_host(self.h_index, stream=self.stream)

    def finish(self):
        with cuda.gpus[self.device_id]:
            self.stream.synchronize()
        return self.h_profile, self.h_index


def sliding_dot(query, T):
    return np.correlate(T, query, mode="valid")


def gpu_stump(T, m):
    k = T.size - m + 1
    windows = np.lib.stride_tricks.sliding_window_view(T, m)
    mu, sigma = windows.mean(axis=1), windows.std(axis=1)
    QT_first = sliding_dot(T[:m], T)
    n_dev = len(cuda.gpus)
    bounds = np.linspace(1, k, n_dev + 1).astype(int)
    parts = []
    for d in range(n_dev):
        lo, hi = int(bounds[d]), int(bounds[d + 1])
        QT = sliding_dot(T[lo - 1:lo - 1 + m], T)
        parts.append(DeviceRange(d, T, m, mu, sigma, QT, QT_first, range(lo, hi)))
    for part in parts:
        part.start()
    profile, index = np.full(k, np.inf), np.full(k, -1, dtype=np.int64)
    for part in parts:
        p, idx = part.finish()
        better = p < profile
        profile[better], index[better] = p[better], idx[better]
    return np.sqrt(profile), index


if __name__ == "__main__":
    series = np.cumsum(np.random.default_rng(0).standard_normal(50_000))
    print(gpu_stump(series, 200)[0].min())
