import argparse

import torch

from frontend import StreamingFrontend
from worker import DecodeWorker, TinyLM

BATCH = 64


def serve(worker, frontend, max_steps=256):
    steps = 0
    while steps < max_steps and not frontend.all_over(BATCH):
        out = worker.step()
        frontend.accept(out)
        steps += 1
    return steps


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--limit", type=int, default=128)
    return ap.parse_args()


def main():
    args = parse()
    torch.cuda.set_device(0)
    torch.manual_seed(args.seed)
    model = TinyLM().cuda().half().eval()
    worker = DecodeWorker(model, BATCH)
    frontend = StreamingFrontend(eos=2, limit=args.limit)
    n = serve(worker, frontend)
    torch.cuda.synchronize()
    print("steps", n)
    frontend.report()


if __name__ == "__main__":
    main()
