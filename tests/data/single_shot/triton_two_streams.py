"""A tensor that a Triton kernel fills aside is summed on the current stream."""

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


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        put[(N // 1024,)](x, N, B=1024)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = x.sum()
    print(y.item())


main()
