import torch

from cell import Cell
from parking import Lot, Valet
from scheduler import Scheduler


def main(device="cuda:0", rows=4096, width=1024, turns=60):
    torch.cuda.set_device(device)
    cell = Cell(width).to(device)
    x = torch.randn(rows, width, device=device)
    valet = Valet(Lot((rows, width), places=8), device)
    scheduler = Scheduler((rows, width), valet, [f"user{i}" for i in range(5)], device)
    outputs = []
    for bay in scheduler.turns(turns):
        for _ in range(4):
            y = cell(bay.state, x)
        outputs.append(y)
    valet.home()
    print(valet.swaps, torch.stack(outputs).mean().item())


if __name__ == "__main__":
    main()
