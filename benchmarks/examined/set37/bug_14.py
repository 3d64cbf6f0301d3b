"""Halo exchange of a 2-D block decomposition, on the CUDA runtime through cuda-python."""
from typing import Dict

import numpy as np
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice


def check(result):
    status, *values = result
    if status != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(status)[1])
    return values[0] if values else None


class Block:
    """rows x cols float32 cells with a one-column ghost layer on either side."""

    def __init__(self, rows: int, cols: int):
        self.rows, self.cols = rows, cols
        self.pitch = (cols + 2) * 4
        self.cells = check(cudart.cudaMalloc(self.pitch * rows))
        self.packed = {side: check(cudart.cudaMalloc(rows * 4)) for side in ("left", "right")}
        self.incoming = {side: check(cudart.cudaMalloc(rows * 4)) for side in ("left", "right")}
        self.host = {side: np.empty(rows, dtype=np.float32) for side in ("left", "right")}
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        check(cudart.cudaMemset(self.cells, 0, self.pitch * rows))
        check(cudart.cudaDeviceSynchronize())

    def _column(self, index: int) -> int:
        return int(self.cells) + index * 4

    def load(self, values: np.ndarray) -> None:
        row_bytes = self.cols * 4
        check(
            cudart.cudaMemcpy2DAsync(
                self._column(1), self.pitch, values.ctypes.data, row_bytes, row_bytes, self.rows, H2D, self.stream
            )
        )
        check(cudart.cudaStreamSynchronize(self.stream))

    def pack(self) -> None:
        for side, index in (("left", 1), ("right", self.cols)):
            check(
                cudart.cudaMemcpy2DAsync(
                    self.packed[side], 4, self._column(index), self.pitch, 4, self.rows, D2D, self.stream
                )
            )

    def collect(self) -> Dict[str, np.ndarray]:
        for side, target in self.host.items():
            check(cudart.cudaMemcpy(target.ctypes.data, self.packed[side], self.rows * 4, D2H))
        return self.host

    def scatter(self, halos: Dict[str, np.ndarray]) -> None:
        for side, index in (("left", 0), ("right", self.cols + 1)):
            source = halos[side]
            check(
                cudart.cudaMemcpyAsync(self.incoming[side], source.ctypes.data, self.rows * 4, H2D, self.stream)
            )
            check(
                cudart.cudaMemcpy2DAsync(
                    self._column(index), self.pitch, self.incoming[side], 4, 4, self.rows, D2D, self.stream
                )
            )
        check(cudart.cudaStreamSynchronize(self.stream))


def exchange(blocks) -> None:
    for block in blocks:
        block.pack()
    edges = [block.collect() for block in blocks]
    count = len(blocks)
    for i, block in enumerate(blocks):
        block.scatter({"left": edges[(i - 1) % count]["right"], "right": edges[(i + 1) % count]["left"]})


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    ring = [Block(8192, 4096) for _ in range(4)]
    for _ in range(10):
        for member in ring:
            member.load(rng.standard_normal((8192, 4096), dtype=np.float32))
        exchange(ring)
    print("done")
