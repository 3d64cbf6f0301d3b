import torch
import torch.nn as nn

from carry import Bag
from observers import ActivationWatch, GradWatch
from session import Session


def batches(count, width, device):
    gen = torch.Generator(device).manual_seed(0)
    for _ in range(count):
        x = torch.randn(256, width, device=device, generator=gen)
        yield x, x.abs()


def main(device="cuda:0", width=1024):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width),
    ).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    bag = Bag()
    session = Session(model, opt, bag, [GradWatch(model, bag), ActivationWatch(model, bag)])
    rows = session.run(batches(80, width, device))
    print(len(rows), rows[-1]["loss"], rows[-1]["grad_norms"])


if __name__ == "__main__":
    main()
