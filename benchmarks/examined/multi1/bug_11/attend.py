import torch

from heads import Heads
from lanes import LanePool


def multi_head(pool, heads, x):
    futures = [pool.submit(*job) for job in heads.jobs(x)]
    parts = [fut.result()[0] for fut in futures]
    return torch.cat(parts, dim=1)


def warmup(pool, heads, x):
    first = heads.jobs(x)[0]
    fut = pool.submit(*first)
    return pool.collect(fut).sum().item()


def main(rows=4096, width=1024, dim=128, count=8):
    pool = LanePool(count)
    heads = Heads(rows, width, dim, count)
    x = torch.randn(rows, width, device="cuda")
    warmup(pool, heads, x)
    y = multi_head(pool, heads, x)
    ref = heads.reference(x)
    print((y - ref).abs().max().item(), heads.nbytes())


if __name__ == "__main__":
    main()
