"""Reductions over k-points with a CUDA-aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI


def sync(arr):
    if isinstance(arr, cp.ndarray):
        cp.cuda.get_current_stream().synchronize()


class KpointComm:
    def __init__(self, comm):
        self.comm = comm

    def sum_inplace(self, arr):
        sync(arr)
        self.comm.Allreduce(MPI.IN_PLACE, arr, op=MPI.SUM)
        return arr

    def start_sum(self, arr):
        sync(arr)
        return self.comm.Iallreduce(MPI.IN_PLACE, arr, op=MPI.SUM)

    def bcast(self, arr, root=0):
        sync(arr)
        self.comm.Bcast(arr, root=root)
        return arr


def density_from_orbitals(psi, occ):
    return cp.einsum("n,ng->g", occ, cp.abs(psi) ** 2)


def mix(rho_in, rho_out, alpha):
    return rho_in + alpha * (rho_out - rho_in)


def scf(comm, psi_k, occ_k, nsteps=10):
    kcomm = KpointComm(comm)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Stream.null.synchronize()
    with stream:
        ngrid = psi_k[0].shape[1]
        rho = cp.zeros(ngrid)
        band_energy = cp.zeros(len(occ_k))
        if comm.rank == 0:
            rho += 1.0 / ngrid
        kcomm.bcast(rho)
        for _ in range(nsteps):
            rho_out = cp.zeros(ngrid)
            for psi, occ in zip(psi_k, occ_k):
                rho_out += density_from_orbitals(psi, occ)
            req = kcomm.start_sum(rho_out)
            for i, psi in enumerate(psi_k):
                band_energy[i] = cp.sum(cp.abs(psi[:, ::2]) ** 2)
            req.Wait()
            rho = mix(rho, rho_out, 0.3)
        kcomm.sum_inplace(band_energy)
        total = float(rho.sum())
        energies = cp.asnumpy(band_energy)
    return total, energies


def main():
    comm = MPI.COMM_WORLD
    rng = cp.random.default_rng(comm.rank)
    psi_k = [rng.standard_normal((8, 4096)) + 1j * rng.standard_normal((8, 4096))
             for _ in range(4)]
    occ_k = [cp.full(8, 2.0) for _ in range(4)]
    total, energies = scf(comm, psi_k, occ_k)
    if comm.rank == 0:
        print(total, np.sum(energies))


if __name__ == "__main__":
    main()
