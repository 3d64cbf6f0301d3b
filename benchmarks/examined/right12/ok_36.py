import cupy as cp
import torch

_scan = cp.RawKernel(r"""
extern "C" __global__
void leaky_scan(const float* x, const float* decay, float* y, int rows, int steps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float state = 0.0f;
    for (int t = 0; t < steps; ++t) {
        state = state * decay[row] + x[(long long)t * rows + row];
        y[(long long)t * rows + row] = state;
    }
}
""", "leaky_scan")

_scan_back = cp.RawKernel(r"""
extern "C" __global__
void leaky_scan_back(const float* g, const float* decay, const float* y,
                     float* gx, float* gd, int rows, int steps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float carry = 0.0f, total = 0.0f;
    for (int t = steps - 1; t >= 0; --t) {
        carry = carry * decay[row] + g[(long long)t * rows + row];
        gx[(long long)t * rows + row] = carry;
        if (t > 0) total += carry * y[(long long)(t - 1) * rows + row];
    }
    gd[row] = total;
}
""", "leaky_scan_back")


def launch(kernel, rows, device, tensors, *scalars):
    handle = torch.cuda.current_stream(device).cuda_stream
    with cp.cuda.Device(device.index), cp.cuda.ExternalStream(handle):
        args = tuple(tensor.data_ptr() for tensor in tensors) + scalars
        kernel(((rows + 127) // 128,), (128,), args)


class LeakyScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, decay):
        x, decay = x.contiguous(), decay.contiguous()
        steps, rows = x.shape
        y = torch.empty_like(x)
        launch(_scan, rows, x.device, (x, decay, y), cp.int32(rows), cp.int32(steps))
        ctx.save_for_backward(decay, y)
        return y

    @staticmethod
    def backward(ctx, g):
        decay, y = ctx.saved_tensors
        g = g.contiguous()
        steps, rows = g.shape
        gx, gd = torch.empty_like(g), torch.empty_like(decay)
        launch(_scan_back, rows, g.device, (g, decay, y, gx, gd), cp.int32(rows), cp.int32(steps))
        return gx, gd


def reference(x, decay):
    state, out = torch.zeros_like(decay), []
    for row in x:
        state = state * decay + row
        out.append(state)
    return torch.stack(out)


def main():
    torch.manual_seed(0)
    x = torch.randn(50, 300, device="cuda", requires_grad=True)
    decay = torch.rand(300, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        got = torch.autograd.grad(LeakyScan.apply(x, decay).square().sum(), (x, decay))
    torch.cuda.current_stream().wait_stream(side)
    want = torch.autograd.grad(reference(x, decay).square().sum(), (x, decay))
    for a, b in zip(got, want):
        a.record_stream(torch.cuda.current_stream())
        print(((a - b).abs().max() / b.abs().max()).item())


if __name__ == "__main__":
    main()
