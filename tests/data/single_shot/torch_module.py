"""A network reads a batch that a side stream is still making."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    x = torch.empty(512, 64, device="cuda")
    torch.cuda.synchronize()
    with torch.no_grad():
        with torch.cuda.stream(side):
            x.normal_()
        if RIGHT:
            torch.cuda.current_stream().wait_stream(side)
        y = net(x)
    print(y.sum().item())


main()
