import torch

from lines import AssemblyLine
from plan import Parcel
from stages import by_name, default_stages

DIM = 2048


def through(line, stages, parcel):
    for stage in stages:
        parcel = line.push(stage, parcel).result()
    return parcel


def main():
    torch.cuda.set_device(0)
    stages = by_name(default_stages(DIM), "whiten", "project", "norm")
    line = AssemblyLine(3)
    totals = []
    for i in range(30):
        x = torch.randn(4096, DIM, device="cuda")
        parcel = through(line, stages, Parcel.sealed(x))
        y = parcel.open()
        totals.append((y @ y[:16].T).sum())
    print(torch.stack(totals).mean().item(), len(line.names))
    line.close()


if __name__ == "__main__":
    main()
