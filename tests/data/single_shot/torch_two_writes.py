"""Two streams write one tensor."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(1.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    x.mul_(2.0)
    torch.cuda.synchronize()
    print(x.sum().item())


main()
