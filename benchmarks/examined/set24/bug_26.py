"""Batched force-field minimisation of conformers."""
import cupy as cp
import numpy as np

_ENERGY = cp.RawKernel(r"""
extern "C" __global__
void energy(const float* pos, const int* owner, float* grad, float* e, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = pos[3*i], y = pos[3*i+1], z = pos[3*i+2];
    grad[3*i] += 2.f * x; grad[3*i+1] += 2.f * y; grad[3*i+2] += 2.f * z;
    atomicAdd(&e[owner[i]], x*x + y*y + z*z);
}
""", "energy")

_STEP = cp.ElementwiseKernel("float32 g, float32 lr", "float32 p", "p -= lr * g", "bfgs_step")


class BfgsWorkspace:
    """Device arrays of one batch."""

    def __init__(self, n_atoms, n_mols):
        self.grad = cp.zeros(3 * n_atoms, dtype=cp.float32)
        self.energy = cp.zeros(n_mols, dtype=cp.float32)
        self.active = cp.ones(n_mols, dtype=cp.bool_)


class BfgsBatchMinimizer:
    def __init__(self, n_streams=4, lr=0.01):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        self.lr = lr

    def submit(self, slot, positions, owner, n_mols):
        n_atoms = owner.size
        ws = BfgsWorkspace(n_atoms, n_mols)
        stream = self.streams[slot % len(self.streams)]
        with stream:
            pos = cp.asarray(positions.ravel())
            own = cp.asarray(owner)
            grid = ((n_atoms + 127) // 128,)
            _ENERGY(grid, (128,), (pos, own, ws.grad, ws.energy, np.int32(n_atoms)))
            _STEP(ws.grad, np.float32(self.lr), pos)
        return stream, pos, ws

    def minimize(self, batches):
        pending = [self.submit(i, p, o, n) for i, (p, o, n) in enumerate(batches)]
        energies = []
        for stream, pos, ws in pending:
            with stream:
                energies.append(ws.energy.get(stream=stream))
            stream.synchronize()
        return energies


def main():
    rng = np.random.default_rng(0)
    minimizer = BfgsBatchMinimizer()
    batches = []
    for _ in range(16):
        pos = rng.standard_normal((4000, 3)).astype(np.float32)
        owner = np.repeat(np.arange(100, dtype=np.int32), 40)
        batches.append((pos, owner, 100))
    for e in minimizer.minimize(batches):
        print(e.mean())


if __name__ == "__main__":
    main()
