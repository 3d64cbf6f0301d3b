"""Thread pool computing power spectra of chunks; the caller averages them."""
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import cupy as cp
import numpy as np

CHUNK = 1 << 20
_tls = threading.local()


def _stream():
    stream = getattr(_tls, "stream", None)
    if stream is None:
        stream = _tls.stream = cp.cuda.Stream(non_blocking=True)
    return stream


def chunk_power(chunk):
    with _stream():
        x = cp.asarray(chunk)
        x -= x.mean()
        lagged = cp.stack([(x[: CHUNK - lag] * x[lag:]).mean() for lag in range(1, 33)])
        return lagged / x.var()


class Periodicity:
    def __init__(self, threads=3):
        self.threads = threads
        self.collect = cp.cuda.Stream(non_blocking=True)

    def estimate(self, chunks):
        with ThreadPoolExecutor(self.threads) as executor, self.collect:
            total = cp.zeros(32, cp.float32)
            futures = [executor.submit(chunk_power, chunk) for chunk in chunks]
            for future in as_completed(futures):
                total += future.result()
            cp.cuda.Device().synchronize()
            return (total / len(futures)).get()


def main():
    rng = np.random.default_rng(45)
    chunks = [np.sin(np.arange(CHUNK) * 0.3).astype(np.float32)
              + rng.standard_normal(CHUNK, dtype=np.float32) for _ in range(12)]
    print(Periodicity().estimate(chunks))


if __name__ == "__main__":
    main()
