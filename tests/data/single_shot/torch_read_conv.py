"""A side stream writes what a convolution reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(1, 4, 128, 128, device="cuda")
    w = torch.ones(4, 4, 3, 3, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = torch.nn.functional.conv2d(x, w)
    print(y.float().sum().item())


main()
