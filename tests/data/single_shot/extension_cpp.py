"""Operators that a C++ extension calls read what a side stream is still writing."""

import sys

import torch
from torch.utils.cpp_extension import load_inline

RIGHT = "--right" in sys.argv
N = 1 << 20
SOURCE = "torch::Tensor scaled(torch::Tensor x) { return x * 2 + 1; }"


def main():
    extension = load_inline("streamlint_scaled", SOURCE, functions=["scaled"])
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(4.0)
    if RIGHT:
        torch.cuda.current_stream().wait_stream(side)
    y = extension.scaled(x)
    print(y.sum().item())


main()
