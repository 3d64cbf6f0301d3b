"""Two streams read one tensor."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.randn(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y = x * 2  # earlier
    z = x + 1  # later
    torch.cuda.synchronize()
    print(y.sum().item(), z.sum().item())


main()
