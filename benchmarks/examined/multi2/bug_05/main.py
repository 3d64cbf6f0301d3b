import random

import torch

from graphed import Stager, capture_all
from model import Ranker

WIDTH = 1024


def requests(rng, n):
    return [(torch.randn(WIDTH).half(), rng.randrange(512)) for _ in range(n)]


def summary(best, sizes):
    print("batches", len(best))
    for size in sizes:
        share = sum(1 for b in best if b < size) / len(best)
        print(f"  winner below {size}: {share:.2f}")


@torch.inference_mode()
def main():
    torch.cuda.set_device(0)
    rng = random.Random(1)
    model = Ranker(WIDTH).cuda().half().eval()
    graphs = capture_all(model, sizes=(32, 128, 512), width=WIDTH)
    stager = Stager(graphs, WIDTH)
    best = []
    for _ in range(64):
        g, n = stager.stage(requests(rng, rng.randint(1, 512)))
        y = g.replay()
        best.append(y[:n].argmax().item())
    print(best[:10])
    summary(best, stager.sizes)


if __name__ == "__main__":
    main()
