"""The event is recorded before the write that it should cover."""

import sys

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def main():
    side, ready = torch.cuda.Stream(), torch.cuda.Event()
    x = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        if not RIGHT:
            ready.record()
        x.fill_(2.0)
        if RIGHT:
            ready.record()
    torch.cuda.current_stream().wait_event(ready)
    y = x + 1
    print(y.sum().item())


main()
