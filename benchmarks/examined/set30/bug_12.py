"""Token permutation for MoE layers with hand-written CuPy kernels behind autograd."""
import cupy as cp
import torch
from torch import nn

GATHER = cp.RawKernel(r"""
extern "C" __global__ void gather_rows(float* out, const float* src, const long long* idx,
                                       long long rows, long long width) {
    long long row = blockIdx.x;
    if (row >= rows) return;
    const float* from = src + idx[row] * width;
    for (long long c = threadIdx.x; c < width; c += blockDim.x) out[row * width + c] = from[c];
}""", "gather_rows")


class PermuteOp:
    """Owns the launch stream for one device; built once per process."""

    def __init__(self, device):
        self.device = device
        with cp.cuda.Device(device.index or 0):
            self.stream = cp.cuda.Stream(non_blocking=True)
        self.torch_stream = torch.cuda.ExternalStream(self.stream.ptr, device=device)

    def forward(self, out, src, idx):
        self.torch_stream.wait_stream(torch.cuda.current_stream(self.device))
        self._launch(out, src, idx)
        torch.cuda.current_stream(self.device).wait_stream(self.torch_stream)

    def backward(self, out, grad, inverse):
        self._launch(out, grad, inverse)
        torch.cuda.current_stream(self.device).wait_stream(self.torch_stream)

    def _launch(self, out, src, idx):
        rows, width = out.shape
        args = (out.data_ptr(), src.data_ptr(), idx.data_ptr(), rows, width)
        with cp.cuda.Device(self.device.index or 0), self.stream:
            GATHER((rows,), (256,), args)


_OPS = {}


def op_for(device):
    if device not in _OPS:
        _OPS[device] = PermuteOp(device)
    return _OPS[device]


class TokenPermute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tokens, order):
        out = torch.empty_like(tokens)
        op_for(tokens.device).forward(out, tokens, order)
        ctx.save_for_backward(order.argsort())
        return out

    @staticmethod
    def backward(ctx, grad_out):
        inverse, = ctx.saved_tensors
        grad = grad_out.contiguous()
        out = torch.empty_like(grad)
        op_for(grad.device).backward(out, grad, inverse)
        return out, None


class TopOneMoE(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width ** 0.5)

    def forward(self, x):
        gate, choice = self.router(x).softmax(-1).max(-1)
        order = choice.argsort()
        packed = TokenPermute.apply(x.contiguous(), order)
        sizes = choice.bincount(minlength=len(self.experts)).tolist()
        parts = [p @ w for p, w in zip(packed.split(sizes), self.experts)]
        mixed = torch.cat(parts)
        back = TokenPermute.apply(mixed, order.argsort())
        return x + gate.unsqueeze(-1) * back


def train(steps=100, tokens=8192, width=512, device="cuda:0"):
    torch.cuda.set_device(device)
    model = nn.Sequential(*[TopOneMoE(width, 8) for _ in range(4)]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        x = torch.randn(tokens, width, device=device)
        loss = (model(x) - x.roll(1, 0)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train()
