import cupy as cp
import cupyx
import numpy as np

_branch_prob = cp.RawKernel(r"""
extern "C" __global__
void branch_prob(const double2* sv, const double2* kraus, long long n, int target, int num_ops,
                 double* probs) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n / 2) return;
    long long lo = i & ((1LL << target) - 1), i0 = ((i >> target) << (target + 1)) | lo;
    long long i1 = i0 | (1LL << target);
    for (int k = 0; k < num_ops; ++k) {
        const double2* K = kraus + 4 * k;
        double p = 0.0;
        for (int r = 0; r < 2; ++r) {
            double re = K[2*r].x * sv[i0].x - K[2*r].y * sv[i0].y + K[2*r+1].x * sv[i1].x - K[2*r+1].y * sv[i1].y;
            double im = K[2*r].x * sv[i0].y + K[2*r].y * sv[i0].x + K[2*r+1].x * sv[i1].y + K[2*r+1].y * sv[i1].x;
            p += re * re + im * im;
        }
        atomicAdd(probs + k, p);
    }
}
""", "branch_prob", options=("--std=c++11",))


class StateVectorSimulator:
    def __init__(self, num_qubits, seed=0):
        self.num_qubits = num_qubits
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rng = np.random.default_rng(seed)
        with self.stream:
            self.sv = cp.zeros(1 << num_qubits, dtype=cp.complex128)
            self.sv[0] = 1.0
        self.probs_host = cupyx.zeros_pinned(16, dtype=np.float64)

    def apply_matrix(self, matrix, target):
        with self.stream:
            m = cp.asarray(matrix)
            view = self.sv.reshape(-1, 2, 1 << target)
            self.sv = cp.einsum("ij,ajb->aib", m, view).reshape(-1)

    def branch_probabilities(self, kraus, target):
        num_ops = len(kraus)
        with self.stream:
            ops = cp.asarray(np.stack(kraus).reshape(-1))
            probs = cp.zeros(num_ops, dtype=cp.float64)
            half = self.sv.size // 2
            _branch_prob(((half + 255) // 256,), (256,),
                         (self.sv, ops, np.int64(self.sv.size), np.int32(target), np.int32(num_ops), probs))
            probs.get(stream=self.stream, out=self.probs_host[:num_ops], blocking=False)
        return self.probs_host[:num_ops]

    def apply_noise(self, kraus, target):
        probabilities = self.branch_probabilities(kraus, target)
        selector, cumulative = self.rng.random(), 0.0
        for k, p in enumerate(probabilities):
            cumulative += p
            if selector < cumulative or k == len(kraus) - 1:
                if p <= 0.0:
                    raise RuntimeError("Selected Kraus branch has zero probability.")
                self.apply_matrix(kraus[k] / np.sqrt(p), target)
                return k

    def sample_probabilities(self):
        with self.stream:
            return cp.asnumpy(cp.abs(self.sv) ** 2)
