"""A side stream writes what a batch of products reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(8, 64, 64, device="cuda")
    w = torch.ones(8, 64, 64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = torch.bmm(x, w)
    print(y.float().sum().item())


main()
