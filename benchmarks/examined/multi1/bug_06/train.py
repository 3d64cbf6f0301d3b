import torch

from ring import Ring
from stepper import Stepper


def samples(count, rows, width):
    gen = torch.Generator().manual_seed(7)
    return [torch.randn(rows, width, generator=gen) for _ in range(count)]


def train(data, depth=3):
    rows, width = data[0].shape
    ring = Ring(depth, (rows, width))
    step = Stepper(width)
    losses = []
    for k in range(min(depth, len(data))):
        ring.fill(k, data[k])
    for k in range(len(data)):
        x = ring.take(k)
        ring.release(k)
        if k + depth < len(data):
            ring.fill(k + depth, data[k + depth])
        losses.append(step(x))
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    curve = train(samples(64, 2048, 1024))
    print(curve[0], curve[-1])
