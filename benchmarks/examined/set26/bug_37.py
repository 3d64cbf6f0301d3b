"""Split-K GEMM in Triton with a cached partial-sum workspace."""
import torch
import triton
import triton.language as tl


@triton.jit
def splitk_partial(a_ptr, b_ptr, ws_ptr, M, N, K, KS,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn, ps = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = ps * KS + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, KS, BK):
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :])
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :])
        acc += tl.dot(a, b)
        rk += BK
    tl.store(ws_ptr + ps * M * N + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def splitk_reduce(ws_ptr, c_ptr, MN, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for s in range(SPLIT):
        acc += tl.load(ws_ptr + s * MN + offs)
    tl.store(c_ptr + offs, acc.to(tl.float16))


_WORKSPACE_CACHE = {}


def _get_workspace(device, m, n, splits):
    numel = splits * m * n
    key = (device, m, n, splits)
    cached = _WORKSPACE_CACHE.get(key)
    if cached is None or cached.numel() < numel:
        cached = torch.empty((numel,), dtype=torch.float32, device=device)
        _WORKSPACE_CACHE[key] = cached
    return cached


def run_mm_splitk_specialized(a, b, split=8):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=torch.float16, device=a.device)
    ws = _get_workspace(a.device, M, N, split)
    splitk_partial[(M // 64, N // 64, split)](a, b, ws, M, N, K, K // split,
                                              BM=64, BN=64, BK=32)
    splitk_reduce[(M * N // 1024,)](ws, c, M * N, SPLIT=split, BLOCK=1024)
    return c


class Attention(torch.nn.Module):
    """Projects queries on the current stream and keys on a side stream."""

    def __init__(self, dim):
        super().__init__()
        self.wq = torch.nn.Parameter(torch.randn(dim, dim, dtype=torch.float16))
        self.wk = torch.nn.Parameter(torch.randn(dim, dim, dtype=torch.float16))
        self.alt_stream = torch.cuda.Stream()

    @torch.no_grad()
    def forward(self, x):
        current = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current)
        with torch.cuda.stream(self.alt_stream):
            k = run_mm_splitk_specialized(x, self.wk)
        q = run_mm_splitk_specialized(x, self.wq)
        current.wait_stream(self.alt_stream)
        k.record_stream(current)
        return torch.softmax(q @ k.t(), dim=-1)


def main(dim=1024, tokens=256, steps=50):
    model = Attention(dim).cuda()
    x = torch.randn(tokens, dim, device="cuda", dtype=torch.float16)
    for _ in range(steps):
        x = model(x) @ x
    torch.cuda.synchronize()
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
