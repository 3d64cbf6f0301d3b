import torch

from ops import collatz, rank_filter


def longest(start, stop):
    x = torch.arange(start, stop, device="cuda", dtype=torch.int64)
    steps = collatz(x)
    best = steps.argmax()
    return int(x[best]), int(steps[best])


def denoise(n=1 << 16, rounds=4):
    t = torch.linspace(0, 50, n, device="cuda")
    x = torch.sin(t)
    mask = torch.rand(n, device="cuda") < 0.02
    x = torch.where(mask, torch.full_like(x, 9.0), x)
    for _ in range(rounds):
        x = rank_filter(x, width=7)
        x = x * 0.999
    return (x - torch.sin(t)).abs().mean().item()


def main():
    for k in range(5):
        print(longest(1 + k * 1_000_000, 1 + (k + 1) * 1_000_000))
    print("error", denoise())


if __name__ == "__main__":
    main()
