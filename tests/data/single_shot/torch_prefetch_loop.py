"""A loop that prefetches, and does not wait for it."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    hosts = [torch.full((N,), float(i)).pin_memory() for i in range(3)]
    slot = torch.empty(N, device="cuda")
    total = torch.zeros((), device="cuda")
    for host in hosts:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            slot.copy_(host, non_blocking=True)
        if RIGHT:
            torch.cuda.current_stream().wait_stream(side)
        total += slot.mean()
    print(total.item())


main()
