"""A tensor is dropped while a side stream still reads it, and its memory is given to another."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.full((N,), 2.0, device="cuda")
    y = torch.empty(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mul(x, 2.0, out=y)
    if RIGHT:
        x.record_stream(side)
    del x
    z = torch.full((N,), 5.0, device="cuda")
    torch.cuda.synchronize()
    print(y.sum().item(), z.sum().item())


main()
