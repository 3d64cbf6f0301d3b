"""Split-K GEMM whose counters and partial sums are kept per stream."""
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import nn


@lru_cache(maxsize=64)
def _workspace_keyed(device, stream_ptr, numel):
    partial = torch.empty(numel, dtype=torch.float32, device=device)
    counter = torch.zeros(1024, dtype=torch.int32, device=device)
    return partial, counter


def get_workspace(device, numel):
    """Workspace of the stream that is current for device."""
    stream = torch.cuda.current_stream(device)
    return _workspace_keyed(device, stream.cuda_stream, triton.next_power_of_2(numel))


@triton.jit
def _splitk_gemm(a_ptr, b_ptr, c_ptr, ws_ptr, counter_ptr, M, N, K, K_PER, GRID_N,
                 SPLITS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn, pk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tile = rm[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K_PER, BK):
        rk = pk * K_PER + k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(ws_ptr + pk * M * N + tile, acc, mask=mask)
    tl.debug_barrier()
    ticket = tl.atomic_add(counter_ptr + pm * GRID_N + pn, 1, sem="acq_rel")
    if ticket == SPLITS - 1:
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for s in range(SPLITS):
            total += tl.load(ws_ptr + s * M * N + tile, mask=mask, other=0.0, cache_modifier=".cg")
        tl.store(c_ptr + tile, total.to(tl.bfloat16), mask=mask)
        tl.atomic_xchg(counter_ptr + pm * GRID_N + pn, 0)


def splitk_matmul(a, b, splits=8, BM=16, BN=64, BK=64):
    M, K = a.shape
    N = b.shape[1]
    k_per = triton.cdiv(triton.cdiv(K, splits), BK) * BK
    ws, counter = get_workspace(a.device, splits * M * N)
    out = torch.empty((M, N), dtype=torch.bfloat16, device=a.device)
    grid_m, grid_n = triton.cdiv(M, BM), triton.cdiv(N, BN)
    assert grid_m * grid_n <= counter.numel()
    _splitk_gemm[(grid_m, grid_n, splits)](
        a, b, out, ws, counter, M, N, K, k_per, grid_n, SPLITS=splits, BM=BM, BN=BN, BK=BK
    )
    return out


class LatentAttentionProjections(nn.Module):
    """Compresses queries on the main stream and keys on an auxiliary one."""

    def __init__(self, width, q_rank, kv_rank, aux_stream):
        super().__init__()
        kw = dict(dtype=torch.bfloat16, device="cuda")
        self.w_q = nn.Parameter(torch.randn(width, q_rank, **kw) * width**-0.5)
        self.w_kv = nn.Parameter(torch.randn(width, kv_rank, **kw) * width**-0.5)
        self.w_o = nn.Parameter(torch.randn(q_rank, width, **kw) * q_rank**-0.5)
        self.aux_stream = aux_stream

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.aux_stream.wait_stream(main)
        with torch.cuda.stream(self.aux_stream):
            kv = splitk_matmul(x, self.w_kv)
        q = splitk_matmul(x, self.w_q)
        main.wait_stream(self.aux_stream)
        scores = torch.softmax(q[:, : kv.shape[1]].float() * kv.float(), dim=-1)
        q = torch.cat([q[:, : kv.shape[1]] * scores.to(q.dtype), q[:, kv.shape[1]:]], dim=1)
        return x + splitk_matmul(q.contiguous(), self.w_o)


@torch.inference_mode()
def decode(n_layers=16, width=4096, batch=16, steps=32):
    aux_stream = torch.cuda.Stream()
    layers = nn.ModuleList(LatentAttentionProjections(width, 1536, 512, aux_stream) for _ in range(n_layers))
    torch.cuda.synchronize()
    x = torch.randn(batch, width, dtype=torch.bfloat16, device="cuda")
    for _ in range(steps):
        for layer in layers:
            x = layer(x)
    return x.float().cpu()
