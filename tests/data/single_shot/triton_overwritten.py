"""PyTorch overwrites what a Triton kernel still reads."""

import sys

import torch
import triton
import triton.language as tl

RIGHT = "--right" in sys.argv
N = 1 << 20


@triton.jit
def put(p, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(p + i, 3.0, mask=i < n)


@triton.jit
def double(p, q, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(q + i, tl.load(p + i, mask=i < n) * 2, mask=i < n)


def main():
    side = torch.cuda.Stream()
    x, y = torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    put[(N // 1024,)](x, N, B=1024)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        double[(N // 1024,)](x, y, N, B=1024)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    x.zero_()
    torch.cuda.synchronize()
    print(y.sum().item())


main()
