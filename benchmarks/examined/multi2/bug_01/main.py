import argparse
import time

import torch

from engine import StreamingEngine
from mover import BlockMover
from weights import BlockSpec, HostWeights


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--blocks", type=int, default=24)
    ap.add_argument("--tokens", type=int, default=4096)
    ap.add_argument("--iters", type=int, default=4)
    return ap.parse_args()


def build(args, device):
    spec = BlockSpec(n_blocks=args.blocks)
    host = HostWeights(spec)
    mover = BlockMover(host, device, n_seats=2)
    return spec, StreamingEngine(mover, args.blocks, ahead=1)


def main():
    args = parse()
    device = torch.device("cuda", 0)
    spec, engine = build(args, device)
    for it in range(args.iters):
        x = torch.randn(args.tokens, spec.hidden, dtype=spec.dtype, device=device)
        engine.warm()
        t0 = time.perf_counter()
        y = engine.forward(x)
        norm = y.float().norm().item()
        print(f"iter {it}: norm {norm:.3f} in {time.perf_counter() - t0:.3f}s")


if __name__ == "__main__":
    main()
