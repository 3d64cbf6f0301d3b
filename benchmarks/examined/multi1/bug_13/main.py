import torch

from plan import PLAN
from registry import Executor, names


def buffers(rows, width, device="cuda"):
    b = {"x": torch.randn(rows, width, device=device)}
    for key in ("wl", "wr", "wt"):
        b[key] = torch.randn(width, width, device=device) / width ** 0.5
    for key in ("l", "r", "y", "z"):
        b[key] = torch.empty(rows, width, device=device)
    return b


@torch.no_grad()
def main(rows=2048, width=2048, rounds=10):
    bufs = buffers(rows, width)
    executor = Executor()
    norms = []
    for _ in range(rounds):
        executor.run(PLAN, bufs)
        norms.append(bufs["z"].norm())
        bufs["x"].mul_(0.9)
    print(names(), torch.stack(norms).tolist())


if __name__ == "__main__":
    main()
