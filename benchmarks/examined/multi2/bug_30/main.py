import torch
import torch.nn as nn

from run import Journal, Snapshotter
from run.tree import send_to


def data(device, width):
    base = [torch.randn(512, width).pin_memory() for _ in range(4)]
    i = 0
    while True:
        yield send_to({"x": base[i % 4]}, device)
        i += 1


def main(device="cuda:0", width=2048, steps=300):
    journal = Journal("/tmp/journal/digests.jsonl")
    snaps = Snapshotter(every=50, sinks=[journal])
    model = nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)
    ).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    snaps.register("model", model)
    snaps.register("opt", opt)
    batches = data(device, width)
    for step in range(1, steps + 1):
        batch = next(batches)
        loss = (model(batch["x"]) - batch["x"]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        snaps.tick(step)
    torch.cuda.synchronize()
    journal.close()


if __name__ == "__main__":
    main()
