"""Gated delta block whose projections use a split-K Triton GEMM with a cached workspace."""
import torch
import triton
import triton.language as tl
from torch import nn

_WORKSPACE_CACHE = {}


def _get_workspace(device, numel):
    """One float32 workspace per device, grown on demand and kept."""
    cached = _WORKSPACE_CACHE.get(device)
    if cached is None or cached.numel() < numel:
        cached = torch.empty(numel, dtype=torch.float32, device=device)
        _WORKSPACE_CACHE[device] = cached
    return cached


@triton.jit
def _splitk_partial(a_ptr, b_ptr, ws_ptr, M, N, K, K_PER,
                    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn, pk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K_PER, BK):
        rk = pk * K_PER + k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    out = ws_ptr + pk * M * N + rm[:, None] * N + rn[None, :]
    tl.store(out, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def _splitk_reduce(ws_ptr, c_ptr, MN, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for s in range(SPLITS):
        acc += tl.load(ws_ptr + s * MN + r, mask=r < MN, other=0.0)
    tl.store(c_ptr + r, acc.to(tl.bfloat16), mask=r < MN)


def splitk_matmul(a, b, splits=8, BM=16, BN=64, BK=64):
    """a: (M, K), b: (K, N), both contiguous bfloat16."""
    M, K = a.shape
    N = b.shape[1]
    k_per = triton.cdiv(triton.cdiv(K, splits), BK) * BK
    ws = _get_workspace(a.device, splits * M * N)
    out = torch.empty((M, N), dtype=torch.bfloat16, device=a.device)
    _splitk_partial[(triton.cdiv(M, BM), triton.cdiv(N, BN), splits)](
        a, b, ws, M, N, K, k_per, BM=BM, BN=BN, BK=BK
    )
    _splitk_reduce[(triton.cdiv(M * N, 1024),)](ws, out, M * N, SPLITS=splits, BLOCK=1024)
    return out


class GatedDeltaBlock(nn.Module):
    def __init__(self, width, state, alt_stream):
        super().__init__()
        kw = dict(dtype=torch.bfloat16, device="cuda")
        self.w_qk = nn.Parameter(torch.randn(width, state, **kw) * width**-0.5)
        self.w_gate = nn.Parameter(torch.randn(width, state, **kw) * width**-0.5)
        self.w_out = nn.Parameter(torch.randn(state, width, **kw) * state**-0.5)
        self.alt_stream = alt_stream

    def forward(self, x):
        current = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current)
        qk = splitk_matmul(x, self.w_qk)
        with torch.cuda.stream(self.alt_stream):
            gate = torch.sigmoid(splitk_matmul(x, self.w_gate))
        current.wait_stream(self.alt_stream)
        return x + splitk_matmul(qk * gate, self.w_out)


@torch.inference_mode()
def decode(n_layers=32, width=4096, state=8192, batch=16, steps=64):
    alt_stream = torch.cuda.Stream()
    blocks = nn.ModuleList(GatedDeltaBlock(width, state, alt_stream) for _ in range(n_layers))
    torch.cuda.synchronize()
    x = torch.randn(batch, width, dtype=torch.bfloat16, device="cuda")
    for _ in range(steps):
        for block in blocks:
            x = block(x)
    return x.float().cpu()
