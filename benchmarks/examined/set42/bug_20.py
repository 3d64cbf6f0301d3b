"""CuPy raw kernels inside torch autograd functions, evaluated by parallel branches."""
import cupy as cp
import torch
import torch.nn as nn

_module = cp.RawModule(code=r"""
extern "C" __global__
void swish_fwd(const float* x, float* y, float beta, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.f + expf(-beta * x[i]));
}
extern "C" __global__
void swish_bwd(const float* x, const float* gy, float* gx, float beta, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 1.f / (1.f + expf(-beta * x[i]));
        gx[i] = gy[i] * (s + beta * x[i] * s * (1.f - s));
    }
}
""")
swish_fwd = _module.get_function("swish_fwd")
swish_bwd = _module.get_function("swish_bwd")


def _grid(n, block=256):
    return ((n + block - 1) // block,), (block,)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        x = x.contiguous()
        ctx.beta = beta
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        n = x.numel()
        swish_fwd(*_grid(n), (cp.asarray(x.detach()), cp.asarray(y), cp.float32(beta), n))
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved_tensors
        grad_y = grad_y.contiguous()
        grad_x = torch.empty_like(x)
        n = x.numel()
        swish_bwd(*_grid(n), (cp.asarray(x), cp.asarray(grad_y), cp.asarray(grad_x),
                              cp.float32(ctx.beta), n))
        return grad_x, None


class Branch(nn.Module):
    def __init__(self, width, beta):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.beta = beta

    def forward(self, x):
        return self.down(Swish.apply(self.up(x), self.beta))


class ParallelBranches(nn.Module):
    """Each branch runs on its own stream; results are joined on the caller's stream."""

    def __init__(self, width, betas):
        super().__init__()
        self.branches = nn.ModuleList([Branch(width, b) for b in betas])
        self.streams = [torch.cuda.Stream() for _ in betas]

    def forward(self, x):
        caller = torch.cuda.current_stream()
        outs = []
        for branch, stream in zip(self.branches, self.streams):
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                outs.append(branch(x))
            x.record_stream(stream)
        for out, stream in zip(outs, self.streams):
            caller.wait_stream(stream)
            out.record_stream(caller)
        return torch.stack(outs).sum(0)


def main():
    model = ParallelBranches(1024, [0.5, 1.0, 2.0]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(20):
        x = torch.randn(512, 1024, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
