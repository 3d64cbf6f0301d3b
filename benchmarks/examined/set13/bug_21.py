import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from skcuda import cublas


class EigenCuda:
    """Multiplies a list of tensors by one matrix, keeping the matrix on the device."""

    def __init__(self, shape_b, max_rows, dtype=np.float64):
        self.dtype = np.dtype(dtype)
        self.handle = cublas.cublasCreate()
        self.stream = cuda.Stream()
        cublas.cublasSetStream(self.handle, self.stream.handle)
        self.k, self.n = shape_b
        self.max_rows = max_rows
        self.h_A = cuda.pagelocked_empty((max_rows, self.k), self.dtype)
        self.h_B = cuda.pagelocked_empty((self.k, self.n), self.dtype)
        self.h_C = cuda.pagelocked_empty((max_rows, self.n), self.dtype)
        self.d_A = cuda.mem_alloc(self.h_A.nbytes)
        self.d_B = cuda.mem_alloc(self.h_B.nbytes)
        self.d_C = cuda.mem_alloc(self.h_C.nbytes)

    def set_matrix(self, B):
        self.stream.synchronize()
        self.h_B[...] = B
        cuda.memcpy_htod_async(self.d_B, self.h_B, self.stream)

    def _gemm(self, rows):
        cublas.cublasDgemm(
            self.handle, "n", "n", self.n, rows, self.k,
            1.0, int(self.d_B), self.n, int(self.d_A), self.k,
            0.0, int(self.d_C), self.n,
        )

    def dot(self, A):
        rows = A.shape[0]
        if rows > self.max_rows:
            raise ValueError("too many rows for the preallocated buffers")
        self.stream.synchronize()
        self.h_A[:rows] = A
        cuda.memcpy_htod_async(self.d_A, self.h_A[:rows], self.stream)
        self._gemm(rows)
        cuda.memcpy_dtoh_async(self.h_C[:rows], self.d_C, self.stream)
        return self.h_C[:rows].copy()

    def close(self):
        self.stream.synchronize()
        cublas.cublasDestroy(self.handle)


def right_matrix_tensor_mult(tensors, B, max_rows):
    gemm = EigenCuda(B.shape, max_rows)
    try:
        gemm.set_matrix(B)
        return [gemm.dot(t) for t in tensors]
    finally:
        gemm.close()


def three_center_rotation(tensors, mo_left, mo_right):
    max_rows = max(t.shape[0] for t in tensors)
    half = right_matrix_tensor_mult(tensors, mo_right, max_rows)
    total = np.zeros((mo_left.shape[1], mo_right.shape[1]))
    for block in half:
        total += mo_left.T @ block
    return total
