"""A side stream writes what a conversion reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = x.half()
    print(y.float().sum().item())


main()
