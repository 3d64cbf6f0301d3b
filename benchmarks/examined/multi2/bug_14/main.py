import argparse

import torch
from torch import nn

from loop import Loop
from shadow import ShadowCallback, ShadowWeights


def batches(n, size, width, device):
    gen = torch.Generator(device=device).manual_seed(7)
    mix = torch.randn(width, width, device=device, generator=gen) / width ** 0.5
    for _ in range(n):
        x = torch.randn(size, width, device=device, generator=gen)
        yield x, torch.tanh(x @ mix)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2000)
    ap.add_argument("--width", type=int, default=4096)
    args = ap.parse_args()
    device = torch.device("cuda")
    model = nn.Sequential(
        nn.Linear(args.width, args.width), nn.SiLU(),
        nn.Linear(args.width, args.width), nn.SiLU(),
        nn.Linear(args.width, args.width),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    weights = ShadowWeights(model, decay=0.9995)
    loop = Loop(model, optimizer, [ShadowCallback(weights)])
    heldout = next(batches(1, 512, args.width, device))
    loop.fit(batches(args.steps, 64, args.width, device), 200, heldout)


if __name__ == "__main__":
    main()
