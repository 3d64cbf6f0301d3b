import argparse

import torch

from flow import numbered, on_device, progress
from knn import TopK
from shards import ShardReader


@torch.no_grad()
def search(reader, queries, k):
    top = TopK(queries, k)
    for base, chunk in progress(numbered(on_device(reader)), len(reader)):
        top.absorb(base, chunk)
    return top.result()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=1_000_000)
    ap.add_argument("--dim", type=int, default=256)
    ap.add_argument("--k", type=int, default=10)
    args = ap.parse_args()
    torch.cuda.set_device(0)
    reader = ShardReader(args.rows, args.dim, chunk=65536)
    queries = torch.randn(512, args.dim, device="cuda")
    best, index = search(reader, queries, args.k)
    print(best[0].tolist(), index[0].tolist())


if __name__ == "__main__":
    main()
