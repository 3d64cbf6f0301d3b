"""The input of a graph is filled on another stream than it is replayed on."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    x, y = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mul(x, 2.0, out=y)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    print(y.sum().item())


main()
