"""A side stream writes what a look-up reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(1024, 64, device="cuda")
    index = torch.arange(0, 1024, 3, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = torch.nn.functional.embedding(index, x)
    print(y.float().sum().item())


main()
