"""Augmentation charges of a plane-wave code: per-rank atoms, summed over ranks with GPU-aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI

radial = cp.ElementwiseKernel(
    "float64 g, float64 width, float64 strength",
    "float64 out",
    "out = strength * exp(-0.5 * width * width * g * g) * (1.0 + 0.1 * g * g)",
    "radial_augmentation",
)


class Species:
    def __init__(self, positions, width, strength):
        self.positions = positions
        self.width = width
        self.strength = strength


class AugmentationCharges:
    def __init__(self, comm, gvectors):
        self.comm = comm
        cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.g = cp.asarray(gvectors)
            self.gnorm = cp.linalg.norm(self.g, axis=1)
            self.density = cp.zeros(len(gvectors), cp.complex128)
            self.gradient = cp.zeros((len(gvectors), 3), cp.float64)
        self.stream.synchronize()

    def _my_atoms(self, species):
        return species.positions[self.comm.rank :: self.comm.size]

    def _accumulate(self, species):
        with self.stream:
            form = radial(self.gnorm, species.width, species.strength)
            for atom in self._my_atoms(species):
                phase = cp.exp(-1j * (self.g[:, 0] * atom[0] + self.g[:, 1] * atom[1] + self.g[:, 2] * atom[2]))
                self.density += form * phase
                self.gradient += self.g * (form * phase.imag)[:, None]

    def evaluate(self, all_species):
        with self.stream:
            self.density.fill(0)
            self.gradient.fill(0)
        for species in all_species:
            self._accumulate(species)
        self.comm.Allreduce(MPI.IN_PLACE, self.density, op=MPI.SUM)
        self.comm.Allreduce(MPI.IN_PLACE, self.gradient, op=MPI.SUM)
        return self.density, self.gradient

    def energy(self, potential):
        with self.stream:
            e = cp.vdot(potential, self.density).real
            return float(e)


def main():
    comm = MPI.COMM_WORLD
    rng = np.random.default_rng(7)
    gvectors = rng.normal(0, 4, (400_000, 3))
    species = [
        Species(rng.uniform(0, 10, (64, 3)), 0.4, 1.5),
        Species(rng.uniform(0, 10, (128, 3)), 0.7, -0.8),
    ]
    aug = AugmentationCharges(comm, gvectors)
    with aug.stream:
        potential = cp.asarray(rng.normal(size=400_000) + 0j)
    for _ in range(5):
        aug.evaluate(species)
        energy = aug.energy(potential)
    if comm.rank == 0:
        print("energy", energy)


if __name__ == "__main__":
    main()
