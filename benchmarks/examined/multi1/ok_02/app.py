import torch

from stages import EdgeMap, Histogram


def frames(count, size=256):
    gen = torch.Generator(device="cuda").manual_seed(3)
    for _ in range(count):
        yield torch.randint(
            0, 256, (4, 3, size, size), generator=gen, device="cuda", dtype=torch.uint8
        )


def summarize(count=40):
    edges = EdgeMap()
    hist = Histogram()
    acc = torch.zeros(Histogram.bins, device="cuda")
    seen = 0
    for h in hist.run(edges.run(frames(count))):
        acc += h.sum(dim=0)
        seen += h.shape[0]
    return (acc / seen).cpu().tolist()


def main():
    result = summarize()
    for i, v in enumerate(result):
        print(f"{i:2d} {v:.4f}")


if __name__ == "__main__":
    main()
