"""Microphysics step that runs a host scheme on fabs staged in pinned memory."""
import cupy as cp
import numpy as np

NLEV, NCOL = 64, 4096


class PinnedFab:
    """Array in page-locked memory with a host view and a device view."""

    def __init__(self, shape, dtype=np.float64):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.mem = cp.cuda.alloc_pinned_memory(nbytes)
        self.host = np.frombuffer(self.mem, dtype=dtype, count=int(np.prod(shape))).reshape(shape)
        unowned = cp.cuda.UnownedMemory(self.mem.ptr, nbytes, self.mem, 0)
        self.dev = cp.ndarray(shape, dtype=dtype, memptr=cp.cuda.MemoryPointer(unowned, 0))


exner = cp.ElementwiseKernel(
    "float64 p", "float64 pii",
    "pii = pow(p / 100000.0, 0.2857)", "compute_exner")
rho_dz = cp.ElementwiseKernel(
    "float64 rho, float64 dz", "float64 q", "q = rho * dz", "compute_rho_dz")


def mp_morr_two_moment(pii, rhodz, rainnc):
    """Host scheme: column loop with sedimentation."""
    flux = np.zeros(pii.shape[1])
    for k in range(pii.shape[0] - 1, -1, -1):
        cond = np.maximum(rhodz[k] * (1.0 - pii[k]), 0.0)
        flux += 0.1 * cond
        rainnc[k] = flux
    return flux


class Morrison:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pii = PinnedFab((NLEV, NCOL))
        self.rhodz = PinnedFab((NLEV, NCOL))
        self.rainnc = PinnedFab((NLEV, NCOL))
        with self.stream:
            self.accum = cp.zeros((NLEV, NCOL), dtype=cp.float64)

    def copy_state_to_micro(self, pressure, rho, dz):
        with self.stream:
            exner(pressure, self.pii.dev)
            rho_dz(rho, dz, self.rhodz.dev)

    def advance(self, pressure, rho, dz):
        self.copy_state_to_micro(pressure, rho, dz)
        surface = mp_morr_two_moment(self.pii.host, self.rhodz.host, self.rainnc.host)
        with self.stream:
            self.accum += self.rainnc.dev
        self.stream.synchronize()
        return surface


def main(nsteps=20):
    pressure = cp.linspace(2e4, 1e5, NLEV)[:, None] + cp.zeros((NLEV, NCOL))
    rho = pressure / (287.0 * 280.0)
    dz = cp.full((NLEV, NCOL), 150.0)
    cp.cuda.Device().synchronize()
    micro = Morrison()
    rain = np.zeros(NCOL)
    for _ in range(nsteps):
        rain += micro.advance(pressure, rho, dz)
    return rain, cp.asnumpy(micro.accum)


if __name__ == "__main__":
    print(main()[0].sum())
