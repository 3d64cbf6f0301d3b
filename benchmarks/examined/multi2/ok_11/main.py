import random

import torch

from adapted import AdaptedLinear
from fetcher import AdapterFetcher
from shelf import Shelf

DIM, RANK, ADAPTERS = 4096, 64, 40


def library():
    out = {}
    for i in range(ADAPTERS):
        a = torch.empty(DIM, RANK, dtype=torch.float16, pin_memory=True).normal_(std=0.01)
        b = torch.empty(RANK, DIM, dtype=torch.float16, pin_memory=True).normal_(std=0.01)
        out[f"user{i}"] = (a, b)
    return out


@torch.inference_mode()
def main():
    torch.cuda.set_device(0)
    shelf = Shelf(places=8, dim=DIM, rank=RANK)
    fetcher = AdapterFetcher(library(), shelf)
    fetcher.start()
    layer = AdaptedLinear(DIM, shelf, fetcher).cuda().half()
    rng = random.Random(0)
    total = torch.zeros((), device="cuda")
    for _ in range(200):
        x = torch.randn(256, DIM, device="cuda", dtype=torch.float16)
        total += layer(x, f"user{rng.randrange(ADAPTERS)}").float().mean()
    print(total.item())
    fetcher.close()


if __name__ == "__main__":
    main()
