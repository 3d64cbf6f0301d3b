"""A side stream writes what an operator on lists of tensors reads, for the first time in the program."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    z = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y, _ = torch._foreach_mul([x, z], 2.0)
    print(y.float().sum().item())


main()
