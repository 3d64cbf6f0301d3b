import torch
from torch import nn

from layers import Block, Recorder
from toolkit import *


def stats(host):
    flat = host.flatten().numpy()
    return float(flat.mean()), float(flat.std()), float(abs(flat).max())


def main(depth=6, dim=512):
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block(dim) for _ in range(depth)).cuda().eval()
    rec = Recorder(blocks)
    y = rec.forward(torch.randn(64, 128, dim, device="cuda"))
    print("bytes", nbytes(rec.saved), "out", y.norm().item())
    for i, h in enumerate(rec.saved):
        print(i, *stats(h))
    for i in range(depth):
        again = rec.replay(i).cpu()
        err = (again - rec.saved[i + 1]).abs().max()
        print("replay", i, float(err))


if __name__ == "__main__":
    main()
