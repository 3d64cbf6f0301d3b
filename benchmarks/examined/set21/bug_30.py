"""Density-fitted Coulomb and exchange builds on CuPy arrays with a ctypes kernel library."""
import ctypes

import cupy as cp
import numpy as np

_LIB_SOURCE = r"""
extern "C" __global__ void unpack_tril(const double* tril, double* square, int nao) {
    int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j > i) return;
    long base = blockIdx.z * (long) nao * (nao + 1) / 2;
    double v = tril[base + (long) i * (i + 1) / 2 + j];
    double* out = square + blockIdx.z * (long) nao * nao;
    out[(long) i * nao + j] = v;
    out[(long) j * nao + i] = v;
}
"""


class LibSolve:
    """Kernel library: C entry points over raw device pointers."""

    def __init__(self):
        self._module = cp.RawModule(code=_LIB_SOURCE)
        self._unpack = self._module.get_function("unpack_tril")
        self._default = cp.cuda.ExternalStream(0)

    def unpack(self, tril_ptr, square_ptr, naux, nao):
        with self._default:
            grid = ((nao + 127) // 128, nao, naux)
            self._unpack(grid, (128,), (tril_ptr, square_ptr, np.int32(nao)))


libsolve = LibSolve()


def _ptr(array):
    return ctypes.c_void_p(array.data.ptr).value


class DFTensor:
    """Cholesky vectors of the density-fitting integrals, stored as triangles."""

    def __init__(self, cderi_tril, nao, blksize=64):
        self.nao = nao
        self.naux = cderi_tril.shape[0]
        self.blksize = blksize
        self._host = cderi_tril

    def loop(self):
        for p0 in range(0, self.naux, self.blksize):
            p1 = min(p0 + self.blksize, self.naux)
            tril = cp.asarray(self._host[p0:p1])
            square = cp.empty((p1 - p0, self.nao, self.nao))
            libsolve.unpack(_ptr(tril), _ptr(square), p1 - p0, self.nao)
            yield square


def get_jk(dfobj, dm):
    vj = cp.zeros_like(dm)
    vk = cp.zeros_like(dm)
    for cderi in dfobj.loop():
        rho = cp.einsum("pij,ij->p", cderi, dm)
        vj += cp.tensordot(rho, cderi, axes=1)
        half = cp.matmul(cderi, dm)
        vk += cp.einsum("pik,pjk->ij", half, cderi)
    return vj, vk


class SCF:
    def __init__(self, hcore, overlap, dfobj, nocc):
        self.hcore, self.overlap = cp.asarray(hcore), cp.asarray(overlap)
        self.dfobj, self.nocc = dfobj, nocc

    def make_rdm1(self, fock):
        x = cp.linalg.inv(cp.linalg.cholesky(self.overlap))
        _, c = cp.linalg.eigh(x @ fock @ x.T)
        occ = (x.T @ c)[:, : self.nocc]
        return 2 * occ @ occ.T

    def kernel(self, max_cycle=20):
        dm = self.make_rdm1(self.hcore)
        for _ in range(max_cycle):
            vj, vk = get_jk(self.dfobj, dm)
            fock = self.hcore + vj - 0.5 * vk
            energy = float(0.5 * cp.sum(dm * (self.hcore + fock)))
            dm = self.make_rdm1(fock)
        return energy


def run(hcore, overlap, cderi_tril, nocc):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        mf = SCF(hcore, overlap, DFTensor(cderi_tril, hcore.shape[0]), nocc)
        return mf.kernel()
