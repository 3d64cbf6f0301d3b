"""Two tensors of one block of the allocator."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x, y = torch.empty(1000, device="cuda"), torch.empty(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(2.0)  # earlier
    y.fill_(3.0)  # later
    torch.cuda.synchronize()
    print(x.sum().item(), y.sum().item())


main()
