"""A thread reads on a stream of its own what the main thread queued on another one."""

import sys
import threading

import torch

RIGHT = "--right" in sys.argv
N = 1 << 20


def look(x, seen):
    with torch.cuda.stream(torch.cuda.Stream()):
        seen.copy_(x[:1])


def main():
    side = torch.cuda.Stream()
    x = torch.empty(N, device="cuda")
    seen = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3.0)
    if RIGHT:
        side.synchronize()
    worker = threading.Thread(target=look, args=(x, seen))
    worker.start()
    worker.join()
    torch.cuda.synchronize()
    print(seen.item())


main()
