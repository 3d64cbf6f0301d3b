import cupy as cp

_MODULE = cp.RawModule(code=r'''
extern "C" {
__global__ void spmv_csr(const int* indptr, const int* indices, const double* vals, const double* p, double* ap, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double acc = 0.0;
    for (int k = indptr[i]; k < indptr[i + 1]; ++k) acc += vals[k] * p[indices[k]];
    ap[i] = acc;
}
__global__ void mas_apply(const double* inv_diag, const double* r, double* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = inv_diag[i] * r[i];
}
__global__ void update_direction(const double* z, double* p, double beta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = z[i] + beta * p[i];
}
__global__ void update_solution(double* x, double* r, const double* p, const double* ap, double alpha, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { x[i] += alpha * p[i]; r[i] -= alpha * ap[i]; }
}
}
''')


class MASPreconditioner:
    def __init__(self, diag):
        self.inv_diag = 1.0 / diag
        self.n = diag.size
        self._apply = _MODULE.get_function("mas_apply")
        self._stream = cp.cuda.Stream.null

    def apply(self, r, z):
        with self._stream:
            self._apply(((self.n + 255) // 256,), (256,), (self.inv_diag, r, z, cp.int32(self.n)))


class FusedPCG:
    def __init__(self, matrix, preconditioner, alpha, beta):
        self.matrix = matrix
        self.preconditioner = preconditioner
        self.n = matrix.shape[0]
        self.alpha, self.beta = alpha, beta
        self.x, self.r, self.z, self.p, self.ap = (cp.zeros(self.n) for _ in range(5))
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.graph = None

    def _launch(self, name, *args):
        _MODULE.get_function(name)(((self.n + 255) // 256,), (256,), args + (cp.int32(self.n),))

    def _iterate(self):
        m = self.matrix
        self._launch("spmv_csr", m.indptr, m.indices, m.data, self.p, self.ap)
        self._launch("update_solution", self.x, self.r, self.p, self.ap, cp.float64(self.alpha))
        self.preconditioner.apply(self.r, self.z)
        self._launch("update_direction", self.z, self.p, cp.float64(self.beta))

    def capture(self):
        with self.stream:
            self.stream.begin_capture()
            self._iterate()
            self.graph = self.stream.end_capture()

    def solve(self, b, iters=64):
        cp.cuda.Stream.null.synchronize()
        with self.stream:
            self.r[:] = b
            self.p[:] = b
            self.x.fill(0)
        if self.graph is None:
            self.stream.synchronize()
            self.capture()
        for _ in range(iters):
            self.graph.launch(self.stream)
        self.stream.synchronize()
        return self.x
