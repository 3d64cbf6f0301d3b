"""The input of a graph is refilled while the graph may still be running."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    x, y = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.add(x, 1.0, out=y)
    torch.cuda.synchronize()
    graph.replay()
    if RIGHT:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.fill_(9.0)
    torch.cuda.synchronize()
    print(y.sum().item())


main()
