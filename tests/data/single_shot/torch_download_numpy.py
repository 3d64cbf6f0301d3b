"""NumPy reads what a copy is still writing."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    host = torch.empty(N, pin_memory=True)
    x = torch.randn(N, device="cuda")
    host.copy_(x, non_blocking=True)
    if RIGHT:
        torch.cuda.current_stream().synchronize()
    array = host.numpy()
    total = array.sum()
    print(total)


main()
