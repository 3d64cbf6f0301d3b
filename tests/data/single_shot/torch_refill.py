"""A pinned buffer is refilled while its copy may still be running."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    host = torch.full((N,), 1.0).pin_memory()
    x = torch.empty(N, device="cuda")
    x.copy_(host, non_blocking=True)
    if RIGHT:
        torch.cuda.synchronize()
    host.fill_(2.0)
    print(x.sum().item())


main()
