"""A side stream writes what `index_add_` reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    y = torch.zeros(7, device="cuda")
    index = torch.arange(N, device="cuda") % 7
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y.index_add_(0, index, x)
    print(y.float().sum().item())


main()
