import torch
import torch.nn.functional as F
from torch import nn

from captured import Feeder, Runner
from data import loader


def build_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    return step


def main():
    dim, batch = 4096, 512
    model = nn.Sequential(
        nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 10),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    example = (torch.zeros(batch, dim, device="cuda"),
               torch.zeros(batch, dtype=torch.long, device="cuda"))
    runner = Runner(build_step(model, optimizer), example)
    feeder = Feeder(loader(dim=dim, batch=batch), runner.inputs)

    total = torch.zeros((), device="cuda")
    steps = 0
    more = feeder.advance()
    while more:
        total += runner(after=feeder.ready)
        steps += 1
        more = feeder.advance()
    print("mean loss", total.item() / max(steps, 1))


if __name__ == "__main__":
    main()
