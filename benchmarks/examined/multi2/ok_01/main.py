import torch

from fences import FenceBook
from ferry import Ferry
from stack import Stack

DIM = 4096
DEPTH = 16


def host_layers(n, dim):
    out = []
    for _ in range(n):
        w = torch.empty(dim, dim, dtype=torch.float16, pin_memory=True)
        w.normal_(std=dim ** -0.5)
        out.append(w)
    return out


@torch.inference_mode()
def main():
    torch.cuda.set_device(0)
    book = FenceBook()
    ferry = Ferry(host_layers(DEPTH, DIM), book, berths=2)
    net = Stack(DEPTH, ferry)
    for step in range(8):
        x = torch.randn(512, DIM, device="cuda", dtype=torch.float16)
        y = net(x)
        print(step, float(y.float().mean()))
    print(book.stats())


if __name__ == "__main__":
    main()
