import torch

from heat import ForcedHeat2D, Heat2D


def initial(n):
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, n, device="cuda"),
        torch.linspace(-1, 1, n, device="cuda"),
        indexing="ij",
    )
    return torch.exp(-8 * (x * x + y * y))


def trace(model, rounds, per_round):
    rows = []
    for _ in range(rounds):
        u = model.advance(per_round)
        rows.append((model.steps, u.mean().item(), u.max().item()))
    return rows


def main(n=512):
    start = initial(n)
    for cls in (Heat2D, ForcedHeat2D):
        print(cls.__name__)
        for step, mean, peak in trace(cls(start), 10, 50):
            print(f"  {step:5d} {mean:.6f} {peak:.4f}")
    print("start", start.mean().item())


if __name__ == "__main__":
    main()
