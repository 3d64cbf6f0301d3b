import torch
import triton
import triton.language as tl


@triton.jit
def _rms_norm_forward_kernel(Y_ptr, Y_stride, X_ptr, X_stride, W_ptr, RSTD_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(X_ptr + row * X_stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.math.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(RSTD_ptr + row, rstd)
    tl.store(Y_ptr + row * Y_stride + cols, x * rstd * w, mask=mask)


@triton.jit
def _silu_mul_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr):
    offs = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offs, mask=mask, other=0.0)
    tl.store(c_ptr + offs, a * tl.sigmoid(a) * b, mask=mask)


def calculate_settings(n):
    block = triton.next_power_of_2(n)
    if block > 65536:
        raise RuntimeError(f"feature dimension {n} exceeds the maximum CUDA blocksize")
    return block, 4 if block < 2048 else 8 if block < 8192 else 16


def rms_norm_forward(X, W, eps):
    shape = X.shape
    X = X.view(-1, shape[-1])
    n_rows, n_cols = X.shape
    block, num_warps = calculate_settings(n_cols)
    Y = torch.empty_like(X)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=X.device)
    _rms_norm_forward_kernel[(n_rows,)](
        Y, Y.stride(0), X, X.stride(0), W, rstd, n_cols, eps, BLOCK_SIZE=block, num_warps=num_warps
    )
    return Y.view(shape)


def swiglu_forward(a, b):
    c = torch.empty_like(a)
    n = a.numel()
    _silu_mul_kernel[(triton.cdiv(n, 1024),)](a, b, c, n, BLOCK_SIZE=1024)
    return c


class Block(torch.nn.Module):
    def __init__(self, dim, hidden, device):
        super().__init__()
        kw = dict(device=device, dtype=torch.bfloat16)
        self.norm = torch.nn.Parameter(torch.ones(dim, **kw))
        self.gate = torch.nn.Linear(dim, hidden, bias=False, **kw)
        self.up = torch.nn.Linear(dim, hidden, bias=False, **kw)
        self.down = torch.nn.Linear(hidden, dim, bias=False, **kw)

    def forward(self, x):
        h = rms_norm_forward(x, self.norm, 1e-6)
        return x + self.down(swiglu_forward(self.gate(h), self.up(h)))


class ShardedModel(torch.nn.Module):
    """device_map="auto": consecutive blocks on consecutive GPUs."""

    def __init__(self, dim=4096, hidden=11008, n_layers=32):
        super().__init__()
        n_gpus = torch.cuda.device_count()
        self.devices = [torch.device("cuda", i * n_gpus // n_layers) for i in range(n_layers)]
        self.blocks = torch.nn.ModuleList([Block(dim, hidden, d) for d in self.devices])

    @torch.no_grad()
    def forward(self, x):
        for block, device in zip(self.blocks, self.devices):
            x = block(x.to(device))
        return x
