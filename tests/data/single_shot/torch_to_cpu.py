"""A copy to the host that does not block, and its result."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    x = torch.randn(N, device="cuda")
    y = x.to("cpu", non_blocking=True)
    if RIGHT:
        torch.cuda.synchronize()
    print(y.sum().item())


main()
