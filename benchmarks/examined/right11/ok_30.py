from __future__ import annotations

import os

os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "1"

from concurrent.futures import ThreadPoolExecutor  # noqa: E402

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402


def whiten(block: np.ndarray) -> np.ndarray:
    x = cp.asarray(block)
    x -= x.mean(axis=0)
    cov = x.T @ x / (x.shape[0] - 1)
    vals, vecs = cp.linalg.eigh(cov)
    return cp.asnumpy((x @ vecs) / cp.sqrt(vals + 1e-5))


class Basis:
    """Projection shared by all worker threads, built once by the main thread."""

    def __init__(self, dim: int, rank: int) -> None:
        self.matrix = cp.random.default_rng(0).standard_normal((dim, rank), dtype=cp.float32)
        self.matrix /= cp.linalg.norm(self.matrix, axis=0)
        cp.cuda.Stream.ptds.synchronize()

    def project(self, block: np.ndarray) -> tuple[np.ndarray, float]:
        coords = cp.asarray(whiten(block)) @ self.matrix
        energy = float((coords * coords).sum())
        return coords.get(), energy


def main() -> None:
    rng = np.random.default_rng(2)
    blocks = [rng.standard_normal((4096, 64)).astype(np.float32) for _ in range(24)]
    basis = Basis(64, 8)
    with ThreadPoolExecutor(max_workers=4) as pool:
        results = list(pool.map(basis.project, blocks))
    stacked = np.concatenate([coords for coords, _ in results])
    print(stacked.shape, sum(e for _, e in results))


if __name__ == "__main__":
    main()
