import torch

from crew import Crew
from encoders import build
from engine import FusionEngine


def batches(n, size=128):
    for _ in range(n):
        ids = torch.randint(0, 30000, (size, 256), device="cuda")
        pixels = torch.rand(size, 3, 224, 224, device="cuda")
        yield ids, pixels


def frequent(picked, n=5):
    flat = torch.stack(picked).flatten()
    counts = torch.bincount(flat)
    top = counts.topk(min(n, counts.numel()))
    return list(zip(top.indices.tolist(), top.values.tolist()))


def main():
    torch.cuda.set_device(0)
    text = build("text")
    image = build("image")
    picked = []
    with Crew() as crew:
        engine = FusionEngine(text, image, crew)
        for ids, pixels in batches(20):
            picked.append(engine.score(ids, pixels))
            torch.cuda.synchronize()
    print(torch.stack(picked)[:3])
    print(frequent(picked))


if __name__ == "__main__":
    main()
