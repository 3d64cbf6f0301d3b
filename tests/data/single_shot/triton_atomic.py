"""A Triton kernel adds up what a side stream is still writing."""

import sys

import torch
import triton
import triton.language as tl

RIGHT = "--right" in sys.argv
N = 1 << 20


@triton.jit
def total(p, q, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(q, tl.sum(tl.load(p + i, mask=i < n)))


def main():
    side = torch.cuda.Stream()
    x, y = torch.empty(N, device="cuda"), torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(4.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    total[(N // 1024,)](x, y, N, B=1024)
    print(y.item())


main()
