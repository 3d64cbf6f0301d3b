"""Embedded-boundary hydro source terms, one box after the other over a few streams."""
from dataclasses import dataclass

import cupy as cp

NCONS = 5

_flux_divergence = cp.ElementwiseKernel(
    "raw float64 flux, float64 vfrac, int64 n, float64 dxinv",
    "float64 divc",
    """
    long long j = i % n;
    long long k = i - j;
    long long right = k + (j + 1 < n ? j + 1 : j);
    divc = vfrac > 0.0 ? -(flux[right] - flux[i]) * dxinv / vfrac : 0.0;
    """,
    "flux_divergence",
)

_redist_weight = cp.ElementwiseKernel(
    "float64 vfrac, float64 rho", "float64 w", "w = vfrac * rho", "redist_weight"
)

_state_redist = cp.ElementwiseKernel(
    "raw float64 divc, raw float64 w, int64 n",
    "float64 dsdt",
    """
    long long j = i % n;
    long long k = i - j;
    long long l = k + (j > 0 ? j - 1 : j);
    long long r = k + (j + 1 < n ? j + 1 : j);
    double wl = w[l % n], wc = w[j], wr = w[r % n];
    dsdt = (wl * divc[l] + wc * divc[i] + wr * divc[r]) / (wl + wc + wr + 1e-30);
    """,
    "state_redist",
)


@dataclass
class EBBox:
    flux: cp.ndarray
    vfrac: cp.ndarray
    rho: cp.ndarray
    dsdt: cp.ndarray

    @classmethod
    def random(cls, n):
        return cls(
            flux=cp.random.random((NCONS, n)),
            vfrac=cp.random.random(n),
            rho=1.0 + cp.random.random(n),
            dsdt=cp.zeros((NCONS, n)),
        )


class HydroUmdrvEB:
    def __init__(self, boxes, dx, num_streams=4):
        self.boxes = boxes
        self.dxinv = 1.0 / dx
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]

    def umdrv(self, box, stream):
        n = box.vfrac.size
        divc = cp.empty((NCONS, n))
        redistwgt = cp.empty(n)
        with stream:
            _flux_divergence(box.flux, box.vfrac, n, self.dxinv, divc)
            _redist_weight(box.vfrac, box.rho, redistwgt)
            _state_redist(divc, redistwgt, n, box.dsdt)

    def source_term(self):
        for k, box in enumerate(self.boxes):
            self.umdrv(box, self.streams[k % len(self.streams)])
        for stream in self.streams:
            stream.synchronize()


def main():
    boxes = [EBBox.random(1 << 20) for _ in range(24)]
    cp.cuda.Device().synchronize()
    hydro = HydroUmdrvEB(boxes, dx=1.0e-3)
    for _ in range(10):
        hydro.source_term()
    print([float(b.dsdt.sum()) for b in boxes[:4]])


if __name__ == "__main__":
    main()
