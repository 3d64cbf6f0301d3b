"""An upload on a side stream is used at once."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    host = torch.empty(N).pin_memory()
    x = torch.empty(N, device="cuda")
    host.fill_(4.0)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.copy_(host, non_blocking=True)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = x * 2
    print(y.sum().item())


main()
