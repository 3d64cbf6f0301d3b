import argparse

import torch

from observer import CalibrationObserver
from tower import Classifier


def samples(n, batch, features=768):
    for _ in range(n):
        yield torch.randn(batch, features, device="cuda")


@torch.inference_mode()
def calibrate(model, observer, n, batch):
    agree = torch.zeros((), device="cuda")
    for x in samples(n, batch):
        y = model(x)
        agree += y.amax(-1).mean()
    observer.detach()
    return agree.item() / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batches", type=int, default=32)
    ap.add_argument("--batch", type=int, default=8192)
    args = ap.parse_args()
    torch.cuda.set_device(0)
    model = Classifier().cuda().eval()
    observer = CalibrationObserver().attach(model)
    conf = calibrate(model, observer, args.batches, args.batch)
    print("confidence", conf)
    for name, (mean, std, mode) in observer.report().items():
        print(f"{name:16s} {mean:+.4f} {std:.4f} {mode}")


if __name__ == "__main__":
    main()
