import torch
from torch import nn

from attention import TwoPath
from lane import side


def build(depth=4, dim=256):
    return nn.Sequential(*[TwoPath(dim, 8) for _ in range(depth)]).cuda().eval()


@torch.inference_mode()
def evaluate(model, batches=20):
    best = float("-inf")
    running = torch.zeros((), device="cuda")
    for _ in range(batches):
        x = torch.randn(8, 128, 256, device="cuda")
        y = model(x)
        with side("stats") as s:
            s.keep("peak", y.abs().amax())
            s.keep("mean", y.mean())
        running.add_(s["mean"])
        best = max(best, s["peak"].item())
    return best, running.item() / batches


def main():
    model = build()
    peak, mean = evaluate(model)
    print("peak", peak, "mean", mean)


if __name__ == "__main__":
    main()
