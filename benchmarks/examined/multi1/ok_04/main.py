import torch

from futures import Submitter
from linalg import evidence


def matrices(count, n=96, k=128):
    gen = torch.Generator(device="cuda").manual_seed(11)
    return [torch.randn(n, k, device="cuda", generator=gen) for _ in range(count)]


def sweep(pool, mats, grid):
    table = {}
    for eps in grid:
        pending = [evidence(pool, m, eps) for m in mats]
        total = torch.zeros((), device="cuda")
        for p in pending:
            total = total + p.result()
        table[eps] = (total / len(mats)).item()
    return table


def main():
    pool = Submitter()
    mats = matrices(12)
    table = sweep(pool, mats, [1e-3, 1e-2, 1e-1, 1.0])
    for eps, v in table.items():
        print(f"{eps:8.3g} {v:12.4f}")
    spot = evidence(pool, mats[0], 0.5)
    print("spot", float(spot.host()))


if __name__ == "__main__":
    main()
