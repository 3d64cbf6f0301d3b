"""A gradient is copied on a stream that does not wait for the backward pass."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side = torch.cuda.Stream()
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)
    x = torch.randn(64, 256, device="cuda")
    bucket = torch.empty(256, 256, device="cuda")
    loss = (x @ weight).square().sum()
    loss.backward()
    if RIGHT:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        bucket.copy_(weight.grad)
    torch.cuda.synchronize()
    print(bucket.sum().item())


main()
