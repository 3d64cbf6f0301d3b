"""A tensor that `x.erfinv_()` writes on a side stream is read at once."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.rand(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.erfinv_()
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    total = x.sum()
    print(total.item())


main()
