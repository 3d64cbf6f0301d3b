"""Both operations are in functions of their own."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def produce(x, stream):
    with torch.cuda.stream(stream):
        x.exponential_()


def consume(x):
    return x.log().sum()


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    produce(x, side)
    if RIGHT:
        side.synchronize()
    print(consume(x).item())


main()
