import random

import torch

from service import Service


def requests(count, dim=128, seed=2):
    rnd = random.Random(seed)
    gen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(rnd.randint(1, 64), dim, generator=gen)


def main():
    svc = Service()
    try:
        pending = [svc.submit(r) for r in requests(200)]
        best = []
        for p in pending:
            w = p.result()
            best.append((float(w.max()), int(w.argmax()), len(w)))
    finally:
        svc.close()
    best.sort(reverse=True)
    for row in best[:10]:
        print(row)


if __name__ == "__main__":
    main()
