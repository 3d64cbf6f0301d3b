"""Split-K matmul in Triton; partial sums live in a workspace kept per stream."""
import torch
import triton
import triton.language as tl


@triton.jit
def _partial(a, b, part, M, N, K, KS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    z = tl.program_id(2)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(z * KS, z * KS + KS, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        acc += tl.dot(x, y)
    tl.store(part + z * M * N + m[:, None] * N + n[None, :], acc,
             mask=(m[:, None] < M) & (n[None, :] < N))


class SplitK:
    def __init__(self, splits=4):
        self.splits = splits
        self.workspaces = {}

    def workspace(self, m, n):
        stream = torch.cuda.current_stream()
        key = (stream.cuda_stream, m, n)
        if key not in self.workspaces:
            self.workspaces[key] = torch.empty(self.splits, m, n, device="cuda")
        return self.workspaces[key]

    def __call__(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        part = self.workspace(m, n)
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), self.splits)
        _partial[grid](a, b, part, m, n, k, k // self.splits, BM=64, BN=64, BK=32)
        return part.sum(0)


def main():
    mm = SplitK()
    streams = [torch.cuda.Stream() for _ in range(2)]
    a = torch.randn(256, 8192, device="cuda", dtype=torch.float16)
    b = torch.randn(8192, 256, device="cuda", dtype=torch.float16)
    main_stream = torch.cuda.current_stream()
    for _ in range(50):
        outs = []
        for s in streams:
            s.wait_stream(main_stream)
            with torch.cuda.stream(s):
                outs.append(mm(a, b))
        for s, o in zip(streams, outs):
            main_stream.wait_stream(s)
            o.record_stream(main_stream)
        total = torch.stack(outs).sum()
    print(total.item())


if __name__ == "__main__":
    main()
