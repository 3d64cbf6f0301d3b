"""The host reads what a copy is still writing."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    host = torch.empty(N).pin_memory()
    x = torch.full((N,), 6.0, device="cuda")
    host.copy_(x, non_blocking=True)
    if RIGHT:
        torch.cuda.synchronize()
    total = host.sum().item()
    print(total)


main()
