"""A tensor is overwritten while a side stream may still read it."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x, y = torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.add(x, 1.0, out=y)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    x.fill_(5.0)
    torch.cuda.synchronize()
    print(y.sum().item())


main()
