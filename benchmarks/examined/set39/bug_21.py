"""Two-tower encoder: the image tower overlaps the text tower on its own stream."""
import argparse

import torch
from torch import nn


def fan_out(consumers, source):
    for s in consumers:
        s.wait_stream(source)


def join(target, producers):
    if len(producers) < 2:
        return target
    for s in producers:
        target.wait_stream(s)
    return target


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class TwoTower(nn.Module):
    def __init__(self, width=2048, depth=6, classes=10):
        super().__init__()
        self.text_tower = Tower(width, 1)
        self.image_tower = Tower(width, depth)
        self.head = nn.Linear(2 * width, classes)
        self.side = torch.cuda.Stream()

    @torch.inference_mode()
    def forward(self, tokens, image):
        main = torch.cuda.current_stream()
        fan_out([self.side], main)
        with torch.cuda.stream(self.side):
            img = self.image_tower(image)
        image.record_stream(self.side)
        img.record_stream(main)

        txt = self.text_tower(tokens)

        join(main, [self.side])
        fused = torch.cat([txt, img], dim=-1)
        return self.head(fused)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--steps", type=int, default=20)
    args = ap.parse_args()

    model = TwoTower().cuda().eval()
    torch.cuda.synchronize()

    correct = 0
    for _ in range(args.steps):
        tokens = torch.randn(args.batch, 2048, device="cuda")
        image = torch.randn(args.batch, 2048, device="cuda")
        logits = model(tokens, image)
        correct += int((logits.argmax(-1) == 0).sum())
    torch.cuda.synchronize()
    print("hits", correct)


if __name__ == "__main__":
    main()
