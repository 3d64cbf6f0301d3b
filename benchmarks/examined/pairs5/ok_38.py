"""CuPy kernels on PyTorch tensors, enqueued on PyTorch's current stream through an external stream."""
import cupy as cp
import torch

_threshold = cp.RawKernel(r'''
extern "C" __global__
void soft_threshold(const float* x, float* y, float t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float m = fabsf(v) - t;
        y[i] = m > 0.f ? copysignf(m, v) : 0.f;
    }
}
''', "soft_threshold")


def soft_threshold(x, t):
    x = x.contiguous()
    y = torch.empty_like(x)
    stream = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    n = x.numel()
    with stream:
        _threshold(((n + 255) // 256,), (256,),
                   (x.data_ptr(), y.data_ptr(), cp.float32(t), cp.int32(n)))
    return y


class Lasso:
    def __init__(self, a, b, lam):
        self.a, self.b, self.lam = a, b, lam
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.lip = torch.linalg.matrix_norm(a, 2).square().item()

    def solve(self, steps):
        with torch.cuda.stream(self.stream):
            x = torch.zeros(self.a.shape[1], device="cuda")
            z, t = x, 1.0
            for _ in range(steps):
                grad = self.a.t() @ (self.a @ z - self.b)
                new = soft_threshold(z - grad / self.lip, self.lam / self.lip)
                t_new = 0.5 * (1 + (1 + 4 * t * t) ** 0.5)
                z = new + (t - 1) / t_new * (new - x)
                x, t = new, t_new
            nnz = int((x != 0).sum())
        main = torch.cuda.current_stream()
        main.wait_stream(self.stream)
        x.record_stream(main)
        return x, nnz


def main():
    a = torch.randn(2000, 1000, device="cuda")
    truth = torch.zeros(1000, device="cuda")
    truth[::50] = 1.0
    x, nnz = Lasso(a, a @ truth, lam=5.0).solve(200)
    print(nnz, (x - truth).norm().item())


if __name__ == "__main__":
    main()
